from datetime import date

import pytest

from domain.returns_numbers import (
    DEFAULT_NUMBER_TEMPLATE,
    check_template,
    return_number,
    return_series,
)


def test_default_return_number() -> None:
    assert return_number(DEFAULT_NUMBER_TEMPLATE, date(2022, 3, 14), 1) == "RET220314-00001"


@pytest.mark.parametrize(
    "template",
    ["RET", "{date:%y%m%d}", "{sequence:05d}", "{0}{date}{sequence}", "{date.__class__}{sequence}", "{",
     "{date:%y}{sequence:0999999999d}", "{date:%999999y}{sequence}"],
)  # fmt: skip
def test_unusable_templates_are_refused(template: str) -> None:
    with pytest.raises(ValueError, match=r"^(The template|Use) "):
        return_number(template, date(2022, 3, 14), 1)


@pytest.mark.parametrize(
    "template",
    [DEFAULT_NUMBER_TEMPLATE, "{date:%y%m%d-}{sequence}", "{sequence}/{date}", "7{date:%Y}9-{sequence:03d}1",
     "{date:%d}{date:%m}N{sequence}"],
)  # fmt: skip
def test_separated_date_and_sequence_are_accepted(template: str) -> None:
    check_template(template)


@pytest.mark.parametrize(
    ("template", "number"),
    [("RET{0:yyMMdd}-{1:D5}", "RET220314-00007"), ("{0:yyyy-MM-dd}/{1}", "2022-03-14/7"),
     ("{1:d3}_{0:dd.MM}", "007_14.03"),
     ("{0:yy MM}-{1:0000}", "22 03-0007"), ("{0:yyMMdd}-{1:D}", "220314-7"), ("{0:yyMMdd}-{sequence:02d}", "220314-07"),
     ("{{{0:yy}}}-{1:D10}", "{22}-0000000007")],
)  # fmt: skip
def test_dotnet_templates(template: str, number: str) -> None:
    check_template(template)
    assert return_number(template, date(2022, 3, 14), 7) == number


@pytest.mark.parametrize(
    "template",
    ["{0:yyMMdd}{1:D5}", "{0}-{1}", "{0:}-{1}", "{0:d}-{1}", "{0:yyyMMdd}-{1}", "{0:yyM}-{1}", "{0:MMMdd}-{1}",
     "{0:yyMMddHH}-{1}", "{0:yyMMdd}-{1:N0}", "{0:yyMMdd}-{1,5:D5}", "{0:yyMMdd}-{1:X4}", "{0:yyMMdd}-{1:D100}",
     "{0:yyMMdd}-{2}", "{1:yyMMdd}-{0:D5}", "{0:yyMMdd}", "{1:D5}", "{0:%y}-{1}", "{0:yyMMdd}-{1:05d}",
     "{0:yy'x'}-{1}", "{0:'yyMMdd'}-{1}", "{0:yyX}-{1}", "{:yy}-{:D5}",
     "{date}{sequence}", "{sequence}{date}", "{date}0{sequence}", "{date:-%y}{sequence}", "{date}-{sequence}{sequence}",
     "{date}-{sequence}12{date}", "{date:-}{sequence}", "{date:. }-{sequence}", "RET", "{date}", "{sequence}"],
)  # fmt: skip
def test_invalid_templates_are_refused(template: str) -> None:
    with pytest.raises(ValueError, match=r"^(The template|Use|Put) "):
        check_template(template)


def test_both_template_syntaxes_share_a_series() -> None:
    day = date(2022, 3, 14)
    assert return_series("RET{0:yyMMdd}-{1:D3}", day) == return_series(DEFAULT_NUMBER_TEMPLATE, day)


def test_numbers_of_any_width_share_a_series() -> None:
    day = date(2022, 3, 14)
    narrow, wide = "R{date:%y%m%d}-{sequence:02d}", "R{date:%y%m%d}-{sequence:05d}"
    assert return_series(narrow, day) == return_series(wide, day) == "R220314-#"
    assert return_series(wide, day) != return_series(wide, date(2022, 3, 15))


@pytest.mark.parametrize(
    ("template", "number", "series"),
    [("{date}-{sequence}", "220314-7", "220314-#"), ("{date:%d/%Y} {sequence:03d}", "14/2022 007", "14/2022 #")],
    ids=["without a format", "with a format"],
)
def test_number_and_series_of_a_template(template: str, number: str, series: str) -> None:
    assert return_number(template, date(2022, 3, 14), 7) == number
    assert return_series(template, date(2022, 3, 14)) == series


@pytest.mark.parametrize(
    ("template", "message"),
    [
        ("{date}-{sequence}{nonsense:x}", r"\{nonsense:x\}$"),
        ("{0:d}-{1}", r", not \{0:d\}$"),
        ("{0:yyX}-{1}", r", not \{0:yyX\}$"),
        ("{0:yy}-{1:N0}", r", not \{1:N0\}$"),
        ("{date}", r"^The template needs both \{date:%y%m%d\} and \{sequence:05d\}$"),
        ("{", "can't be read"),
        ("{date:-}{sequence}", r"^The template has no date: use \{date:%y%m%d\}$"),
        (
            "{date}{sequence}",
            "^Put something that is not a digit between the date and the sequence, "
            r"as in RET\{date:%y%m%d\}-\{sequence:05d\}$",
        ),
    ],
)
def test_error_names_the_fault_of_a_template(template: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        check_template(template)
