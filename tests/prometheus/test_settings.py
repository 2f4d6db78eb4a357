"""The settings for Prometheus: what can't be used is refused without repeating a secret."""

from __future__ import annotations

import argparse

import pytest

from webapp.config import settings_of
from webapp.settings import SettingError, resolve


def refused(**environment: str) -> str:
    with pytest.raises(SettingError) as caught:
        resolve(
            settings_of("serve"),
            argparse.Namespace(),
            {f"ENGINEHOUSE_{name.upper()}": text for name, text in environment.items()},
        )
    assert caught.value.__cause__ is None
    return str(caught.value)


@pytest.mark.parametrize(
    "header", ["Authorization Bearer s3cret", "X: s3cret\r\nY: z", "X: s3cret\nZ", "X Y: s3cret", ": s3cret", "X: s3cret模"]
)
def test_a_header_that_can_not_be_sent_is_refused_and_not_repeated(header: str) -> None:
    """T107: CR and LF would end the header."""
    said = refused(prometheus_header=header)
    assert said == "ENGINEHOUSE_PROMETHEUS_HEADER=…: expected NAME: VALUE, such as X-Scope-OrgID: tenant-1"


def test_a_parameter_without_a_value_is_refused_and_not_repeated() -> None:
    assert refused(prometheus_parameter="s3cret") == "ENGINEHOUSE_PROMETHEUS_PARAMETER=…: expected NAME=VALUE, such as nocache=1"


def test_a_bad_address_is_refused_without_its_password() -> None:
    said = refused(prometheus="htp://ops:s3cret@p:9090")
    assert said == "ENGINEHOUSE_PROMETHEUS=htp://…@p:9090: expected an address such as http://127.0.0.1:8765"


def test_several_headers_and_parameters_are_kept() -> None:
    flags = argparse.Namespace(prometheus_header=["X-A: 1: 2", "X-B:3"], prometheus_parameter=["nocache=1", "q=a=b"])
    found = resolve(settings_of("serve"), flags, {})
    assert found.prometheus_header == (("X-A", "1: 2"), ("X-B", "3"))
    assert found.prometheus_parameter == (("nocache", "1"), ("q", "a=b"))
