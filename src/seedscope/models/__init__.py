"""Networks as frozen data that makes (init, apply) pairs; importing this room loads JAX."""

from seedscope.models.base import Init, Model, Network, Parameters, Shape, network_of, parameter_count
from seedscope.models.convolutional import lenet5, small_cnn, small_vgg, tanh_cnn, tanh_vgg
from seedscope.models.custom import Custom, as_model
from seedscope.models.dense import MLP, Logistic, logistic, mlp
from seedscope.models.keys import root_key
from seedscope.models.layers import VECTOR, PatchConvolution, PooledConvolution, ScaleAndShift
from seedscope.models.named import model_named
from seedscope.models.residual import ResNet, resnet20
from seedscope.models.smoothness import require_smooth

__all__ = [
    "MLP",
    "VECTOR",
    "Custom",
    "Init",
    "Logistic",
    "Model",
    "Network",
    "Parameters",
    "PatchConvolution",
    "PooledConvolution",
    "ResNet",
    "ScaleAndShift",
    "Shape",
    "as_model",
    "lenet5",
    "logistic",
    "mlp",
    "model_named",
    "network_of",
    "parameter_count",
    "require_smooth",
    "resnet20",
    "root_key",
    "small_cnn",
    "small_vgg",
    "tanh_cnn",
    "tanh_vgg",
]
