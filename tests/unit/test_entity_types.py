"""Object types: the registry, and the ways to register types."""

import json
import sys
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.entity_types import (
    PRODUCT,
    SAMPLE,
    EntityType,
    EntityTypes,
    PartlyResolvedError,
    ResolvedEntity,
)
from plaudit.config import ConfigurationError, Settings
from plaudit.entity_types.http_resolvers import HttpResolver
from plaudit.entity_types.registered import registered_entity_types
from plaudit.entity_types.resolvers import FunctionResolver

VENDOR = {
    "entityType": "Vendor",
    "description": "Who sells",
    "fullTypeName": "Example.Vendor",
    "icon": "fas fa-store",
    "entityIdFieldName": "vendorId",
    "detailBlade": {"controller": "vendorDetail", "template": "vendor.html"},
    "knownChildrenTypes": ["Branch"],
    "purchaseItemField": "vendorId",
}
TEMPLATE = {"url": "https://names.example/vendors/{id}", "name": "name"}


def names_by_id(ids: list[str]) -> dict[str, dict[str, str]]:
    return {id: {"name": f"Name of {id}"} for id in ids}


def registry_of(*types: Any, file: Path | None = None) -> EntityTypes:
    return registered_entity_types(
        Settings(_env_file=None, entity_types=json.dumps(types) if types else None, entity_types_file=file)
    )


def error_of(*types: Any, file: Path | None = None) -> str:
    with pytest.raises(ConfigurationError) as raised:
        registry_of(*types, file=file)
    return str(raised.value)


def test_children_are_transitive_and_may_be_cyclic() -> None:
    types = EntityTypes(
        [
            EntityType("Vendor", known_children_types=("Branch", "Branch", "Vendor")),
            EntityType("Branch", known_children_types=("Desk", "Vendor")),
            EntityType("Lonely"),
        ]
    )
    assert types.with_children("Vendor") == ["Vendor", "Branch", "Desk"]
    assert types.with_children("Branch") == ["Branch", "Desk", "Vendor"]
    assert types.with_children("Desk") == ["Desk"]
    assert types.with_children("Lonely") == ["Lonely"]


@given(st.dictionaries(st.sampled_from("ABCDE"), st.lists(st.sampled_from("ABCDEF")).map(tuple)))
def test_children_are_closed_under_descent(children: dict[str, tuple[str, ...]]) -> None:
    types = EntityTypes([EntityType(name, known_children_types=names) for name, names in children.items()])
    for name in "ABCDEF":
        found = types.with_children(name)
        assert found[0] == name
        assert len(found) == len(set(found))
        assert {child for each in found for child in types.with_children(each)} == set(found)


def test_names_are_unique_and_not_blank() -> None:
    with pytest.raises(ValueError, match="Vendor"):
        EntityTypes([EntityType("Vendor"), EntityType("Vendor")])
    with pytest.raises(ValueError, match="name"):
        EntityType(" ")


def test_sample_types() -> None:
    assert [type.entity_type for type in SAMPLE] == ["Product"]
    assert SAMPLE.resolver("Product") is None
    assert SAMPLE.resolver("Nobody") is None
    assert SAMPLE.purchase_item_fields == {"Product": "productId"}
    assert list(registry_of()) == list(SAMPLE)


def test_every_attribute_can_be_configured() -> None:
    types = registry_of({**VENDOR, "getEntity": TEMPLATE})
    vendor = types.get("Vendor")
    assert vendor
    assert isinstance(vendor.get_entity, HttpResolver)
    assert vendor.detail_blade
    assert (vendor.description, vendor.full_type_name, vendor.icon) == ("Who sells", "Example.Vendor", "fas fa-store")
    assert (vendor.entity_id_field_name, vendor.purchase_item_field) == ("vendorId", "vendorId")
    assert (vendor.detail_blade.controller, vendor.detail_blade.template) == ("vendorDetail", "vendor.html")
    assert types.with_children("Vendor") == ["Vendor", "Branch"]


def test_configuration_overrides_only_given_fields() -> None:
    product = registry_of({"entityType": "Product", "getEntity": f"{__name__}:names_by_id"}).get("Product")
    assert product
    assert isinstance(product.get_entity, FunctionResolver)
    assert (product.icon, product.purchase_item_field) == (PRODUCT.icon, "productId")
    product = registry_of({"entityType": "Product", "icon": "fas fa-x", "purchaseItemField": None}).get("Product")
    assert product
    assert (product.icon, product.purchase_item_field) == ("fas fa-x", None)


def test_file_and_variable_are_merged(tmp_path: Path) -> None:
    file = tmp_path / "types.json"
    file.write_text(json.dumps([VENDOR]))
    types = registry_of({"entityType": "Branch"}, file=file)
    assert [type.entity_type for type in types] == ["Product", "Vendor", "Branch"]


@pytest.mark.parametrize(
    ("type", "place", "expected"),
    [
        ({}, "/0/entityType", "required"),
        ({**VENDOR, "entityType": " "}, "/0/entityType", "blank"),
        ({**VENDOR, "colour": "red"}, "/0/colour", "There is no attribute with this name. Use one of: description, "),
        ({"entityTyp": "Vendor"}, "/0/entityType", "/0/entityTyp: There is no attribute with this name. Did you mean"),
        ({**VENDOR, "detailBlade": {"controler": "x"}}, "/0/detailBlade/controller", "Did you mean controller?"),
        ({**VENDOR, "getEntity": {**TEMPLATE, "time-out": 1}}, "/0/getEntity/time-out", "Did you mean timeout?"),
        ({**VENDOR, "icon": 3}, "/0/icon", "Must be a text"),
        ({**VENDOR, "detailBlade": {"controller": "x"}}, "/0/detailBlade/template", "required"),
        ({**VENDOR, "knownChildrenTypes": "Branch"}, "/0/knownChildrenTypes", "Must be a list"),
        ({**VENDOR, "getEntity": 3}, "/0/getEntity", "package.module:function"),
        ({**VENDOR, "getEntity": "names"}, "/0/getEntity", "package.module:function"),
        ({**VENDOR, "getEntity": "no_such_module:names"}, "/0/getEntity", "no_such_module"),
        ({**VENDOR, "getEntity": f"{__name__}:nobody"}, "/0/getEntity", "nobody"),
        ({**VENDOR, "getEntity": f"{__name__}:VENDOR"}, "/0/getEntity", "function"),
        ({**VENDOR, "getEntity": {"url": TEMPLATE["url"]}}, "/0/getEntity/name", "required"),
        ({**VENDOR, "getEntity": {**TEMPLATE, "name": "a..b"}}, "/0/getEntity/name", "path"),
        ({**VENDOR, "getEntity": {**TEMPLATE, "image": "images[0]"}}, "/0/getEntity/image", "path"),
        ({**VENDOR, "getEntity": {**TEMPLATE, "timeout": 0}}, "/0/getEntity/timeout", "greater"),
        ({**VENDOR, "getEntity": {**TEMPLATE, "headers": {"a": "x\r\ny"}}}, "/0/getEntity/headers/a", "ASCII"),
    ],
)
def test_invalid_registration_is_located(type: Any, place: str, expected: str) -> None:
    message = error_of(type)
    assert message.startswith(f"PLAUDIT_ENTITY_TYPES: {place}: ")
    assert expected in message


@pytest.mark.parametrize(
    "url",
    [
        "names.example/{id}",
        "ftp://names.example/{id}",
        "file:///etc/{id}",
        "https://names.example/",
        "https://{id}.example/",
        "https://names.example:{id}/",
        "https://user:secret@names.example/{id}",
        "https://names.example/{id}/{name}",
        "https://names.example/#{id}",
    ],
)
def test_unsafe_url_templates_are_refused(url: str) -> None:
    assert "http or https address" in error_of({**VENDOR, "getEntity": {**TEMPLATE, "url": url}})


def test_errors_do_not_repeat_secrets() -> None:
    headers = {"authorization": "Bearer secret", "x": 3}
    assert "secret" not in error_of({**VENDOR, "getEntity": {**TEMPLATE, "headers": headers}})
    assert "hidden-words" not in str(Settings(_env_file=None, entity_types="hidden-words").model_dump(mode="json"))


def test_duplicate_registration_is_refused() -> None:
    assert error_of(VENDOR, VENDOR) == (
        "PLAUDIT_ENTITY_TYPES /1: Vendor is registered already, by PLAUDIT_ENTITY_TYPES /0"
    )


def test_invalid_json_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"^PLAUDIT_ENTITY_TYPES: Invalid JSON"):
        registered_entity_types(Settings(_env_file=None, entity_types="[{"))
    missing = tmp_path / "missing.json"
    assert error_of(file=missing) == f"PLAUDIT_ENTITY_TYPES_FILE ({missing}): No such file or directory"
    missing.write_bytes(b"\xff")
    assert error_of(file=missing).startswith(f"PLAUDIT_ENTITY_TYPES_FILE ({missing}): Invalid JSON")


def test_file_may_begin_with_a_byte_order_mark(tmp_path: Path) -> None:
    file = tmp_path / "types.json"
    file.write_text(json.dumps([VENDOR]), encoding="utf-8-sig")
    assert registry_of(file=file).get("Vendor") is not None


Install = Callable[..., None]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Install a package with object types: a module and its entry points."""

    def install(package: str, code: str, **points: str) -> None:
        (tmp_path / f"{package}.py").write_text(code)
        folder = tmp_path / f"{package}-1.0.dist-info"
        folder.mkdir()
        (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
        lines = [f"{name} = {package}:{value}\n" for name, value in points.items()]
        (folder / "entry_points.txt").write_text("[plaudit.entity_types]\n" + "".join(lines))
        monkeypatch.delitem(sys.modules, package, raising=False)

    monkeypatch.syspath_prepend(tmp_path)
    return install


IMPORT = "from domain.entity_types import EntityType, ResolvedEntity\n"


async def test_types_from_packages(install: Install) -> None:
    code = """
async def names(ids):
    return {id: ResolvedEntity("Vendor " + id, None) for id in ids}

VENDOR = EntityType("Vendor", get_entity=names, known_children_types=("Branch",))
MORE = [EntityType("Branch"), EntityType("Product", icon="fas fa-box")]
"""
    install("vendors_package", IMPORT + code, vendor="VENDOR", more="MORE")
    types = registry_of({"entityType": "Vendor", "icon": "fas fa-store"})
    assert {type.entity_type for type in types} == {"Product", "Vendor", "Branch"}
    product, vendor, resolver = types.get("Product"), types.get("Vendor"), types.resolver("Vendor")
    assert product
    assert product.icon == "fas fa-box"
    assert vendor
    assert (vendor.icon, vendor.known_children_types) == ("fas fa-store", ("Branch",))
    assert resolver
    assert await resolver(["a"]) == {"a": ResolvedEntity("Vendor a")}


def test_duplicate_type_from_packages_is_refused(install: Install) -> None:
    install("first_package", IMPORT + "TYPE = EntityType('Vendor')", vendor="TYPE")
    install("second_package", IMPORT + "TYPE = EntityType('Vendor')", vendor="TYPE")
    message = error_of()
    assert "_package:TYPE in plaudit.entity_types of package" in message
    assert message.endswith("The object type Vendor is registered twice")


@pytest.mark.parametrize(
    ("code", "expected"),
    [("TYPE = 3", "TypeError"), ("TYPE = ['Vendor']", "must be an EntityType"), ("raise OSError('gone')", "gone")],
)
def test_invalid_entry_points_are_refused(install: Install, code: str, expected: str) -> None:
    install("odd_package", code, vendor="TYPE")
    message = error_of()
    assert message.startswith("Entry point vendor = odd_package:TYPE in plaudit.entity_types of package odd_package: ")
    assert expected in message


def test_function_is_accepted_as_resolver() -> None:
    async def names(ids: Collection[str], /) -> Mapping[str, ResolvedEntity]:
        return {id: ResolvedEntity(id) for id in ids}

    assert EntityTypes([EntityType("Vendor", get_entity=names)]).resolver("Vendor") is names


@pytest.mark.parametrize("name", ["", " ", "\t\n"])
def test_blank_type_name_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match=r"^An object type needs a name$"):
        EntityType(name)


def test_partly_resolved_error_keeps_resolved_names() -> None:
    found = {"a": ResolvedEntity("Camera")}
    error = PartlyResolvedError("status 503", found, ["b"])
    assert (str(error), error.found, error.failed) == ("status 503", found, ["b"])
