"""Fitted models as ONNX graphs, by skl2onnx: call `register()` once, then `skl2onnx.to_onnx`.

skl2onnx's own converters know scikit-learn's classes by name, and do not take float64 for ridge
classifiers, nor for a regression without an intercept. These do.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ling.errors import InputTypeError, MissingPackageError
from ling.estimators import Ridge, RidgeClassifier, RidgeClassifierCV, RidgeCV

#: What can be asked of classifiers. "zipmap" is understood, but there is none: it is for
#: probabilities. So it is for scikit-learn's ridge classifiers.
OPTIONS = {
    "zipmap": [True, False, "columns"],
    "nocl": [True, False],
    "raw_scores": [True, False],
}


def register() -> None:
    """Tell skl2onnx how to convert the four estimators; doing it twice does no harm.

    A regression gives `variable`, (n_samples, n_targets). A classifier gives `label`, and in
    `probabilities`, as skl2onnx calls them, the values of `decision_function`: (n_samples, 1) for
    two classes, or (n_samples, n_classes). With the option `raw_scores` two classes have a column
    each. Numbers are in the dtype of the input, integers in float32.

    Examples
    --------
    >>> import numpy as np
    >>> import ling.onnx
    >>> X = np.random.default_rng(0).standard_normal((50, 3)).astype(np.float32)
    >>> model = ling.Ridge().fit(X, X @ np.ones(3))
    >>> ling.onnx.register()
    >>> from skl2onnx import to_onnx
    >>> [node.op_type for node in to_onnx(model, X[:1]).graph.node]
    ['MatMul', 'Add']
    """
    try:
        from skl2onnx import update_registered_converter
    except ImportError as error:
        raise MissingPackageError(
            "models become ONNX graphs by skl2onnx, which is missing; pip install 'ling[onnx]'."
        ) from error
    for regressor in (Ridge, RidgeCV):
        update_registered_converter(
            regressor, _alias(regressor), _regression_shapes, _convert_regression
        )
    for classifier in (RidgeClassifier, RidgeClassifierCV):
        update_registered_converter(
            classifier, _alias(classifier), _classifier_shapes, _convert_classifier,
            options=OPTIONS, parser=_parse_classifier,
        )  # fmt: skip


def _regression_shapes(operator: Any) -> None:
    operator.outputs[0].type = _output_tensor_type(operator, _coef(operator.raw_operator).shape[1])


def _convert_regression(scope: Any, operator: Any, container: Any) -> None:
    _linear_predictor(operator, container, output_names=operator.outputs).add_to(scope, container)


def _parse_classifier(scope: Any, model: Any, inputs: Any, custom_parsers: Any = None) -> Any:
    from skl2onnx.common.data_types import Int64TensorType, guess_tensor_type

    operator = scope.declare_local_operator(_alias(type(model)), model)
    operator.inputs = inputs
    scores = guess_tensor_type(inputs[0].type)
    for name, kind in (("label", Int64TensorType()), ("probabilities", scores)):
        operator.outputs.append(scope.declare_local_variable(name, kind))
    return operator.outputs


def _classifier_shapes(operator: Any) -> None:
    from skl2onnx.common.data_types import Int64TensorType, StringTensorType

    model, scope = operator.raw_operator, operator.scope_inst
    label, scores = operator.outputs
    rows, columns = operator.inputs[0].get_first_dimension(), _coef(model).shape[1]
    is_text = _label_classes(scope, model).dtype.kind == "U"
    shape = [rows, columns] if model._label_decoder.is_multilabel else [rows]
    label.type = StringTensorType(shape) if is_text else Int64TensorType(shape)
    scores.type = _output_tensor_type(
        operator, 2 if _has_binary_score_columns(scope, model) else columns
    )


def _convert_classifier(scope: Any, operator: Any, container: Any) -> None:
    from skl2onnx.algebra.onnx_ops import OnnxIdentity

    model, version = operator.raw_operator, container.target_opset
    label, scores = operator.outputs
    found = _linear_predictor(operator, container)
    pairs = _binary_score_columns(found, version) if _is_binary(model) else found
    shown = pairs if _has_binary_score_columns(scope, model) else found
    OnnxIdentity(shown, op_version=version, output_names=[scores]).add_to(scope, container)
    if model._label_decoder.is_multilabel:
        decided = _multilabel_label(found, _output_dtype(operator), label, version)
    else:
        decided = _argmax_label(pairs, _label_classes(scope, model), label, version)
    decided.add_to(scope, container)


def _linear_predictor(operator: Any, container: Any, **options: Any) -> Any:
    """X coef + intercept, in float64 if X is, else in float32."""
    from skl2onnx.algebra.onnx_ops import OnnxAdd, OnnxCast, OnnxMatMul
    from skl2onnx.common.data_types import guess_numpy_type, guess_proto_type

    model, version, dtype = operator.raw_operator, container.target_opset, _output_dtype(operator)
    X = operator.inputs[0]
    if guess_numpy_type(X.type) != dtype:
        X = OnnxCast(X, to=guess_proto_type(_output_tensor_type(operator, 1)), op_version=version)
    coef = _coef(model).astype(dtype)
    intercept = np.broadcast_to(model.intercept_, coef.shape[1]).astype(dtype)
    product = OnnxMatMul(X, coef, op_version=version)
    return OnnxAdd(product, intercept, op_version=version, **options)


def _binary_score_columns(found: Any, version: int) -> Any:
    """A column for each of two classes."""
    from skl2onnx.algebra.onnx_ops import OnnxConcat, OnnxNeg

    return OnnxConcat(OnnxNeg(found, op_version=version), found, axis=1, op_version=version)


def _argmax_label(columns: Any, classes: Any, label: Any, version: int) -> Any:
    from skl2onnx.algebra.onnx_ops import OnnxArgMax, OnnxGather

    best = OnnxArgMax(columns, axis=1, keepdims=0, op_version=version)
    return OnnxGather(classes, best, axis=0, op_version=version, output_names=[label])


def _multilabel_label(found: Any, dtype: Any, label: Any, version: int) -> Any:
    from skl2onnx.algebra.onnx_ops import OnnxCast, OnnxGreater
    from skl2onnx.proto import onnx_proto

    above = OnnxGreater(found, np.zeros(1, dtype), op_version=version)
    kind = onnx_proto.TensorProto.INT64
    return OnnxCast(above, to=kind, op_version=version, output_names=[label])


def _alias(model: type) -> str:
    return f"Ling{model.__name__}"


def _coef(model: Any) -> Any:
    """(n_features, n_targets)."""
    return np.atleast_2d(model.coef_).T


def _output_tensor_type(operator: Any, columns: int) -> Any:
    """The type of what is computed from the input."""
    from skl2onnx.common.data_types import guess_tensor_type

    kind = guess_tensor_type(operator.inputs[0].type)
    kind.shape = [operator.inputs[0].get_first_dimension(), columns]
    return kind


def _output_dtype(operator: Any) -> Any:
    from skl2onnx.common.data_types import guess_numpy_type

    return guess_numpy_type(_output_tensor_type(operator, 1))


def _is_binary(model: Any) -> bool:
    return not model._label_decoder.is_multilabel and _coef(model).shape[1] == 1


def _has_binary_score_columns(scope: Any, model: Any) -> bool:
    options = scope.get_options(model, {"raw_scores": False})
    return bool(options["raw_scores"]) and _is_binary(model)


def _label_classes(scope: Any, model: Any) -> Any:
    """Text, or integers: what labels can be in ONNX."""
    classes = np.asarray(model.classes_)
    if scope.get_options(model, {"nocl": False})["nocl"]:
        return np.arange(len(classes))
    if all(isinstance(name, str) for name in classes):
        return classes.astype(np.str_)
    if classes.dtype.kind == "O" or (classes != np.floor(classes)).any():
        raise InputTypeError(
            f"classes_ are {classes}, and labels in ONNX are text or integers; fit to such labels, "
            "or pass options={'nocl': True} for their numbers."
        )
    return classes.astype(np.int64)
