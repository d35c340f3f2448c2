import pytest

CODE = """
from datetime import date
from decimal import Decimal

@dataclass(frozen=True, slots=True)
class Inner:
    size: int
    many: tuple[int, ...] = ()

@dataclass(frozen=True, slots=True)
class Settings:
    key: str = "k"
    inner: Inner | None = None
    each: list[Inner] = field(default_factory=list)
    by_name: dict[str, Inner] = field(default_factory=dict)
    price: Decimal = Decimal(1)
    day: date = date(2024, 1, 1)
    either: int | Inner = 0

@dataclass
class Needy:
    size: int

@dataclass
class Picky:
    key: str
    def __post_init__(self):
        if self.key != "right":
            raise ValueError(f"{self.key} is not right")

@dataclass
class Broken:
    def __post_init__(self):
        self.gone

@dataclass
class Falsy:
    def __bool__(self):
        return False

@dataclass
class Locked:
    size: int = 1
    def __post_init__(self):
        import threading
        self.lock = threading.Lock()

class Thing: ...

@dataclass
class Odd:
    thing: Thing
"""


def settings_of(project, text):
    assert project.listener(text, CODE) == []
    return project.inspect((project.root / "organism.yaml").read_text())[0].listeners[0].settings


def test_values_are_converted_to_the_types_of_the_fields(project):
    project.environ |= {"SIZE": "7", "PRICE": "1.50"}
    settings = settings_of(
        project,
        """
        settings_class: listeners.greet.Settings
        settings:
          key: "x"
          inner: {size: "${SIZE}", many: [1, 2]}
          each: [{size: 1}]
          by_name: {a: {size: 2}}
          price: ${PRICE}
          day: "2024-02-03"
        """,
    )
    assert (settings.inner.size, settings.inner.many, settings.each[0].size) == (7, (1, 2), 1)
    assert (str(settings.price), settings.day.isoformat(), settings.by_name["a"].size) == (
        "1.50",
        "2024-02-03",
        2,
    )


@pytest.mark.parametrize(
    "text",
    ["settings_class: listeners.greet.Settings", "settings_class: listeners.greet.Settings\nsettings:"],
)
def test_a_class_alone_gives_its_defaults(project, text):
    assert settings_of(project, text).key == "k"


def test_an_instance_that_is_false_is_still_one(project):
    assert type(settings_of(project, "settings_class: listeners.greet.Falsy")).__name__ == "Falsy"


def one(keys, kind="Settings"):
    return f"settings_class: listeners.greet.{kind}\nsettings: {keys}"


@pytest.mark.parametrize(
    ("text", "finding"),
    [
        (
            "settings: {a: 1}",
            (
                "7: listeners[0].settings: settings need a class that checks them "
                "(add settings_class: the dotted path of a dataclass with these fields)"
            ),
        ),
        (
            "settings_class: listeners.greet.Thing",
            '7: listeners[0].settings_class: "listeners.greet.Thing" is not a dataclass',
        ),
        (
            "settings_class: listeners.greet.greet",
            '7: listeners[0].settings_class: "listeners.greet.greet" is not a dataclass',
        ),
        (
            "settings_class: listeners.greet.Setings",
            (
                '7: listeners[0].settings_class: there is no name "Setings" in '
                '"listeners.greet" (listeners/greet.py) (did you mean "Settings"?)'
            ),
        ),
        (one("{kee: 1}"), '8: listeners[0].settings.kee: unknown key "kee" (did you mean "key"?)'),
        (
            one("{inner: {size: 1, sise: 2}}"),
            '8: listeners[0].settings.inner.sise: unknown key "sise" (did you mean "size"?)',
        ),
        (
            one("{each: [{size: 1, sise: 2}]}"),
            '8: listeners[0].settings.each[0].sise: unknown key "sise" (did you mean "size"?)',
        ),
        (
            one("{by_name: {a: {size: 1, sise: 2}}}"),
            '8: listeners[0].settings.by_name.a.sise: unknown key "sise"',
        ),
        (one("{inner: {}}"), "8: listeners[0].settings.inner.size: is missing"),
        (
            one("{inner: {size: x}}"),
            '8: listeners[0].settings.inner.size: a whole number was expected, not "x"',
        ),
        (
            one("{inner: 5}"),
            "8: listeners[0].settings.inner: a mapping of keys was expected; YAML reads this as the number 5",
        ),
        (
            one("{key: no}"),
            "8: listeners[0].settings.key: text was expected; YAML reads this as the boolean no (quote it)",
        ),
        (
            one("{either: x}"),
            "8: listeners[0].settings.either: a whole number was expected",
        ),
        ("settings_class: listeners.greet.Needy", "7: listeners[0].settings.size: is missing"),
        (one("{key: wrong}", "Picky"), "8: listeners[0].settings: wrong is not right"),
        (
            one("{}", "Broken"),
            (
                "7: listeners[0].settings_class: Broken failed: listeners/greet.py:{}: AttributeError: 'Broken' "
                "object has no attribute 'gone'"
            ),
        ),
        (
            "settings_class: listeners.greet.Locked",
            "7: listeners[0].settings_class: Locked cannot be copied, and each invocation gets settings of its own: ",
        ),
        (one("{thing: 1}", "Odd"), "7: listeners[0].settings_class: Odd has fields that cannot be checked: "),
    ],
)
def test_invalid_settings_are_refused(project, text, finding):
    findings = project.listener(text, CODE)
    line = (project.root / "listeners/greet.py").read_text().split("self.gone")[0].count("\n") + 1
    assert len(findings) == 1
    assert findings[0].startswith("organism.yaml:" + finding.replace("{}:", f"{line}:"))


def test_a_secret_in_the_classs_own_words_is_hidden(project):
    project.environ["KEY"] = "hunter22"
    assert project.listener(one('{key: "${KEY}"}', "Picky"), CODE) == [
        "organism.yaml:8: listeners[0].settings: [redacted] is not right"
    ]
