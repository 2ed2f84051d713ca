"""A linear model with its public preprocessing as an ONNX graph: rows as they are in the table in, probabilities out.

Only operators of ONNX's own set in double precision, so that any runtime gives what `predict_proba` gives. Needs the
extra `onnx`, the format's own package.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from seedscope.core import SeedscopeError
from seedscope.datasets import FittedScaling

OPERATORS, LAYOUT = 17, 8  # versions of the operators and of the file that runtimes of 2022 and later read


def onnx_model(
    coefficients: np.ndarray, intercepts: np.ndarray, scaling: FittedScaling, classes: tuple[str, ...]
) -> bytes:
    """Return the file of a logistic regression, coefficients [logit, feature], that scales rows itself.

    Input `features` [row, feature], outputs `probabilities` [row, class] and `label` [row], all in double precision but
    for the label, the class's name.
    """
    onnx = _package()
    helper, double = onnx.helper, onnx.TensorProto.DOUBLE
    if len(coefficients) == 1:  # of two classes the first has the logit 0
        coefficients, intercepts = (
            np.concatenate([np.zeros_like(values), values]) for values in (coefficients, intercepts)
        )
    width = coefficients.shape[1]
    constants, steps = _scaled(scaling, width)
    constants |= {"weights": coefficients.T, "bias": intercepts}
    steps += [("MatMul", ["scaled", "weights"], "product"), ("Add", ["product", "bias"], "logits")]
    nodes = [helper.make_node(kind, inputs, [output]) for kind, inputs, output in steps]
    nodes.append(helper.make_node("Softmax", ["logits"], ["probabilities"], axis=1))
    nodes.append(helper.make_node("ArgMax", ["probabilities"], ["place"], axis=1, keepdims=0))
    nodes.append(helper.make_node("Gather", ["classes", "place"], ["label"]))
    tensors = [onnx.numpy_helper.from_array(np.asarray(values, float), name) for name, values in constants.items()]
    tensors.append(
        helper.make_tensor("classes", onnx.TensorProto.STRING, [len(classes)], [c.encode() for c in classes])
    )
    tensors.append(onnx.numpy_helper.from_array(np.array([1], np.int64), "axis"))
    graph = helper.make_graph(
        nodes, "released model",
        [helper.make_tensor_value_info("features", double, [None, width])],
        [
            helper.make_tensor_value_info("probabilities", double, [None, len(classes)]),
            helper.make_tensor_value_info("label", onnx.TensorProto.STRING, [None]),
        ],
        tensors,
    )  # fmt: skip
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPERATORS)], producer_name="seedscope")
    made.ir_version = LAYOUT
    onnx.checker.check_model(made, full_check=True)
    written: bytes = made.SerializeToString(deterministic=True)
    return written


def _scaled(scaling: FittedScaling, width: int) -> tuple[dict[str, np.ndarray], list[tuple[str, list[str], str]]]:
    """Return the constants and the steps from `features` to `scaled`: cut, centred, divided, rows shortened."""
    constants = {name: np.broadcast_to(getattr(scaling, name), width) for name in ("mean", "deviation")}
    steps, last = [], "features"
    if scaling.fill is not None:
        constants |= {"fill": scaling.fill}
        steps += [("IsNaN", [last], "empty"), ("Where", ["empty", "fill", last], "filled")]
        last = "filled"
    if scaling.lower is not None and scaling.upper is not None:
        constants |= {"lower": scaling.lower, "upper": scaling.upper}
        steps += [("Max", [last, "lower"], "raised"), ("Min", ["raised", "upper"], "cut")]
        last = "cut"
    steps += [("Sub", [last, "mean"], "centred"), ("Div", ["centred", "deviation"], "divided")]
    if scaling.norm_bound is None:
        return constants, [*steps, ("Identity", ["divided"], "scaled")]
    constants |= {"bound": np.array([scaling.norm_bound])}
    shortened = [
        ("Mul", ["divided", "divided"], "squares"), ("ReduceSum", ["squares", "axis"], "square"),
        ("Sqrt", ["square"], "norm"), ("Max", ["norm", "bound"], "longer"), ("Div", ["bound", "longer"], "share"),
        ("Mul", ["divided", "share"], "scaled"),
    ]  # fmt: skip
    return constants, [*steps, *shortened]


def _package() -> Any:
    """Return the package `onnx`, or raise how to get it."""
    try:
        import onnx
    except ImportError:
        raise SeedscopeError("ONNX needs another package: pip install 'seedscope[onnx]'.", argument="onnx") from None
    return onnx
