import optuna
import optunahub


def objective(trial: optuna.Trial) -> float:
    x = trial.suggest_float("x", -5, 5)
    y = trial.suggest_int("y", -5, 5)
    return (x - 1) ** 2 + y**2


if __name__ == "__main__":
    module = optunahub.load_module("samplers/regretless_eic")
    sampler = module.RegretlessSampler(budget=50)
    study = optuna.create_study(sampler=sampler)
    study.optimize(objective, n_trials=50)

    print("luckiest:", study.best_params, study.best_value)
    print("recommended:", sampler.recommend(study))
