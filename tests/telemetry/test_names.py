"""The strings of spans are those of the installed semantic conventions, or begin as ours."""

from __future__ import annotations

from opentelemetry.semconv._incubating.attributes import gen_ai_attributes, telemetry_attributes
from opentelemetry.semconv._incubating.metrics import gen_ai_metrics
from opentelemetry.semconv.attributes import (
    code_attributes,
    error_attributes,
    http_attributes,
    service_attributes,
)

from agentserver.telemetry.client import DURATION, TOKENS
from agentserver.telemetry.spans import OURS, Attribute, Operation

MODULES = (
    gen_ai_attributes,
    telemetry_attributes,
    code_attributes,
    error_attributes,
    http_attributes,
    service_attributes,
)


def test_each_attribute_is_one_of_the_conventions_or_ours():
    known = {value for module in MODULES for name, value in vars(module).items() if name.isupper()}
    assert {str(name) for name in Attribute if not name.startswith(OURS)} <= known


def test_each_operation_is_one_of_the_conventions():
    known = {one.value for one in gen_ai_attributes.GenAiOperationNameValues}
    assert {str(one) for one in Operation} <= known


def test_each_metric_of_completions_is_one_of_the_conventions():
    assert gen_ai_metrics.GEN_AI_CLIENT_TOKEN_USAGE == TOKENS
    assert gen_ai_metrics.GEN_AI_CLIENT_OPERATION_DURATION == DURATION


def test_the_providers_that_models_may_have_are_called_as_in_the_conventions():
    known = {one.value for one in gen_ai_attributes.GenAiProviderNameValues}
    assert {"openai", "anthropic"} <= known
