"""Drop-ins for Optuna, BoTorch and Ray Tune.

Each module needs its framework, and nothing here imports it until you import that module:

    from noregret.integrations.optuna import NoRegretSampler
    from noregret.integrations.botorch import LogExpectedImprovementCost, optimize_eic
    from noregret.integrations.ray import NoRegretSearch
"""
