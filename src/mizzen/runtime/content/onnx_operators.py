"""The operators of ONNX that compute only with their inputs, by domain. All run in onnxruntime itself."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

_STANDARD: Final = """
    Abs Acos Acosh Add AffineGrid And ArgMax ArgMin Asin Asinh Atan Atanh Attention AveragePool BatchNormalization
    Bernoulli BitCast BitShift BitwiseAnd BitwiseNot BitwiseOr BitwiseXor BlackmanWindow Cast CastLike Ceil Celu
    CenterCropPad Clip Col2Im Compress Concat ConcatFromSequence Constant ConstantOfShape Conv ConvInteger ConvTranspose
    Cos Cosh CumProd CumSum DFT DeformConv DepthToSpace DequantizeLinear Det Div Dropout DynamicQuantizeLinear Einsum
    Elu Equal Erf Exp Expand EyeLike Flatten Floor GRU Gather GatherElements GatherND Gelu Gemm GlobalAveragePool
    GlobalLpPool GlobalMaxPool Greater GreaterOrEqual GridSample GroupNormalization HammingWindow HannWindow HardSigmoid
    HardSwish Hardmax Identity If InstanceNormalization IsInf IsNaN LRN LSTM LayerNormalization LeakyRelu Less
    LessOrEqual Log LogSoftmax Loop LpNormalization LpPool MatMul MatMulInteger Max MaxPool MaxRoiPool MaxUnpool Mean
    MeanVarianceNormalization MelWeightMatrix Min Mish Mod Mul Multinomial Neg NegativeLogLikelihoodLoss
    NonMaxSuppression NonZero Not OneHot Optional OptionalGetElement OptionalHasElement Or PRelu Pad Pow QLinearConv
    QLinearMatMul QuantizeLinear RMSNormalization RNN RandomNormal RandomNormalLike RandomUniform RandomUniformLike
    Range Reciprocal ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum
    ReduceSumSquare RegexFullMatch Relu Reshape Resize ReverseSequence RoiAlign RotaryEmbedding Round STFT Scan Scatter
    ScatterElements ScatterND Selu SequenceAt SequenceConstruct SequenceEmpty SequenceErase SequenceInsert
    SequenceLength SequenceMap Shape Shrink Sigmoid Sign Sin Sinh Size Slice Softmax SoftmaxCrossEntropyLoss Softplus
    Softsign SpaceToDepth Split SplitToSequence Sqrt Squeeze StringConcat StringNormalizer StringSplit Sub Sum Swish Tan
    Tanh TensorScatter TfIdfVectorizer ThresholdedRelu Tile TopK Transpose Trilu Unique Unsqueeze Upsample Where Xor
"""
_CLASSICAL: Final = """
    ArrayFeatureExtractor Binarizer CastMap CategoryMapper DictVectorizer FeatureVectorizer Imputer LabelEncoder
    LinearClassifier LinearRegressor Normalizer OneHotEncoder SVMClassifier SVMRegressor Scaler TreeEnsemble
    TreeEnsembleClassifier TreeEnsembleRegressor ZipMap
"""

OPERATORS: Final[Mapping[str, frozenset[str]]] = {
    "": frozenset(_STANDARD.split()),
    "ai.onnx": frozenset(_STANDARD.split()),
    "ai.onnx.ml": frozenset(_CLASSICAL.split()),
}

MESSAGES: Final[Mapping[str, Mapping[int, Any]]] = {
    "Model": {1: None, 2: None, 3: None, 4: None, 5: None, 6: None, 7: "Graph", 8: "Opset", 14: "Metadata"},
    "Graph": {
        1: "Node", 2: None, 5: "Tensor", 10: None, 11: "Value", 12: "Value", 13: "Value", 14: "Annotation",
        15: "Sparse", 16: "Metadata",
    },
    "Node": {1: None, 2: None, 3: None, 4: "type", 5: "Attribute", 6: None, 7: "domain", 9: "Metadata"},
    "Attribute": {
        1: None, 2: None, 3: None, 4: None, 5: "Tensor", 6: "Graph", 7: None, 8: None, 9: None, 10: "Tensor",
        11: "Graph", 13: None, 14: "Type", 15: "Type", 20: None, 21: None, 22: "Sparse", 23: "Sparse",
    },
    "Tensor": {
        1: None, 2: None, 4: None, 5: None, 6: None, 7: None, 8: None, 9: None, 10: None, 11: None, 12: None,
        13: "external_data", 14: "data_location", 16: "Metadata",
    },
    "Sparse": {1: "Tensor", 2: "Tensor", 3: None},
    "Opset": {1: "domain", 2: None},
    "Metadata": {1: "key", 2: None},
    "Value": {1: None, 2: None, 3: None, 4: "Metadata"},
    "Annotation": {1: None, 2: None},
    "Type": dict.fromkeys(range(1, 10)),
}  # fmt: skip
"""The fields of each message that may occur: another message, the word for a check, or None for harmless values."""
