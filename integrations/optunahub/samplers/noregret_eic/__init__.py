from noregret.integrations.optuna import NoRegretSampler

__all__ = ["NoRegretSampler"]
