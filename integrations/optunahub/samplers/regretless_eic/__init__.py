from regretless.integrations.optuna import RegretlessSampler

__all__ = ["RegretlessSampler"]
