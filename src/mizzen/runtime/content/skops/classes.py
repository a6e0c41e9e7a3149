"""The classes that a skops file may contain without trust, by their full names.

Criteria: what they do with attributes of any value is plain computation with numpy. Missing are classes that read
files, cache pickles, or call functions, such as scorers. Missing are also those that pass indexes of the file to native
code without checks, unless `rules` checks them: boosted trees, neighbors, kernel SVMs, isotonic regression, splines,
and sparse matrices.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

_ESTIMATORS: Final = {
    "calibration": "CalibratedClassifierCV _CalibratedClassifier _SigmoidCalibration",
    "cluster._kmeans": "KMeans MiniBatchKMeans",
    "compose._column_transformer": "ColumnTransformer",
    "compose._target": "TransformedTargetRegressor",
    "cross_decomposition._pls": "PLSRegression PLSCanonical CCA",
    "decomposition._factor_analysis": "FactorAnalysis",
    "decomposition._fastica": "FastICA",
    "decomposition._incremental_pca": "IncrementalPCA",
    "decomposition._pca": "PCA",
    "decomposition._truncated_svd": "TruncatedSVD",
    "discriminant_analysis": "LinearDiscriminantAnalysis QuadraticDiscriminantAnalysis",
    "dummy": "DummyClassifier DummyRegressor",
    "ensemble._bagging": "BaggingClassifier BaggingRegressor",
    "ensemble._forest": "ExtraTreesClassifier ExtraTreesRegressor RandomForestClassifier RandomForestRegressor",
    "ensemble._stacking": "StackingClassifier StackingRegressor",
    "ensemble._voting": "VotingClassifier VotingRegressor",
    "ensemble._weight_boosting": "AdaBoostClassifier AdaBoostRegressor",
    "feature_extraction.text": "CountVectorizer HashingVectorizer TfidfTransformer TfidfVectorizer",
    "feature_selection._from_model": "SelectFromModel",
    "feature_selection._univariate_selection": (
        "GenericUnivariateSelect SelectFdr SelectFpr SelectFwe SelectKBest SelectPercentile"
    ),
    "feature_selection._variance_threshold": "VarianceThreshold",
    "impute._base": "MissingIndicator SimpleImputer",
    "linear_model._base": "LinearRegression",
    "linear_model._bayes": "ARDRegression BayesianRidge",
    "linear_model._coordinate_descent": (
        "ElasticNet ElasticNetCV Lasso LassoCV MultiTaskElasticNet MultiTaskElasticNetCV MultiTaskLasso "
        "MultiTaskLassoCV"
    ),
    "linear_model._glm.glm": "GammaRegressor PoissonRegressor TweedieRegressor",
    "linear_model._huber": "HuberRegressor",
    "linear_model._least_angle": "Lars LarsCV LassoLars LassoLarsCV LassoLarsIC",
    "linear_model._logistic": "LogisticRegression LogisticRegressionCV",
    "linear_model._omp": "OrthogonalMatchingPursuit OrthogonalMatchingPursuitCV",
    "linear_model._passive_aggressive": "PassiveAggressiveClassifier PassiveAggressiveRegressor",
    "linear_model._perceptron": "Perceptron",
    "linear_model._quantile": "QuantileRegressor",
    "linear_model._ridge": "Ridge RidgeCV RidgeClassifier RidgeClassifierCV",
    "linear_model._stochastic_gradient": "SGDClassifier SGDRegressor",
    "linear_model._theil_sen": "TheilSenRegressor",
    "mixture._bayesian_mixture": "BayesianGaussianMixture",
    "mixture._gaussian_mixture": "GaussianMixture",
    "multiclass": "OneVsOneClassifier OneVsRestClassifier _ConstantPredictor",
    "multioutput": "MultiOutputClassifier MultiOutputRegressor",
    "naive_bayes": "BernoulliNB CategoricalNB ComplementNB GaussianNB MultinomialNB",
    "neural_network._multilayer_perceptron": "MLPClassifier MLPRegressor",
    "neural_network._stochastic_optimizers": "AdamOptimizer SGDOptimizer",
    "pipeline": "FeatureUnion Pipeline",
    "preprocessing._data": (
        "Binarizer MaxAbsScaler MinMaxScaler Normalizer PowerTransformer QuantileTransformer RobustScaler "
        "StandardScaler"
    ),
    "preprocessing._discretization": "KBinsDiscretizer",
    "preprocessing._encoders": "OneHotEncoder OrdinalEncoder",
    "preprocessing._function_transformer": "FunctionTransformer",
    "preprocessing._label": "LabelBinarizer LabelEncoder",
    "svm._classes": "LinearSVC LinearSVR",
    "tree._classes": "DecisionTreeClassifier DecisionTreeRegressor ExtraTreeClassifier ExtraTreeRegressor",
    "_loss.link": "HalfLogitLink IdentityLink Interval LogLink LogitLink MultinomialLogit",
    "_loss.loss": (
        "AbsoluteError ExponentialLoss HalfBinomialLoss HalfGammaLoss HalfMultinomialLoss HalfPoissonLoss "
        "HalfSquaredError HalfTweedieLoss HalfTweedieLossIdentity HuberLoss PinballLoss"
    ),
}
_SKLEARN_LOSSES: Final = {
    "linear_model._sgd_fast": "EpsilonInsensitive Hinge ModifiedHuber SquaredEpsilonInsensitive SquaredHinge",
    "_loss._loss": (
        "CyAbsoluteError CyExponentialLoss CyHalfBinomialLoss CyHalfGammaLoss CyHalfMultinomialLoss CyHalfPoissonLoss "
        "CyHalfSquaredError CyHalfTweedieLoss CyHalfTweedieLossIdentity CyHuberLoss CyPinballLoss"
    ),
}


def _full_names(listed: Mapping[str, str]) -> frozenset[str]:
    return frozenset(f"sklearn.{module}.{name}" for module, names in listed.items() for name in names.split())


ALLOWED: Final = _full_names(_ESTIMATORS)
LOSSES: Final = _full_names(_SKLEARN_LOSSES)
TREES: Final = frozenset({"sklearn.tree._tree.Tree"})
TUPLE_STATES: Final = frozenset({"sklearn._loss.link.Interval"})
"""Classes whose state is a tuple."""

FUNCTIONS: Final = frozenset(
    f"sklearn.feature_selection._univariate_selection.{name}" for name in ("chi2", "f_classif", "f_regression")
)
"""Functions that selectors of features keep, and call only when they are fitted."""

_INTEGERS: Final = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
NUMBERS: Final = frozenset(
    f"numpy.{name}" for name in (*_INTEGERS, "float16", "float32", "float64", "bool", "bool_", "str_")
)
"""Scalars and element types of numpy."""

KEYS: Final[Mapping[str, Callable[[Any], Any]]] = {
    "builtins.str": str,
    "builtins.int": int,
    "builtins.float": float,
    "numpy.str_": str,
    "numpy.float64": float,
    **{f"numpy.{name}": int for name in _INTEGERS},
}
"""Types of the keys of a dict, which files store as texts."""
