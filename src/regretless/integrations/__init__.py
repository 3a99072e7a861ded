"""Drop-ins for Optuna, BoTorch and Ray Tune.

Each module needs its framework, and nothing here imports it until you import that module:

    from regretless.integrations.optuna import RegretlessSampler
    from regretless.integrations.botorch import LogExpectedImprovementCost, optimize_eic
    from regretless.integrations.ray import RegretlessSearch
"""
