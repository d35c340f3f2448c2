from tests.config.conftest import CODE


def organism(*entries):
    return "name: demo\nlisteners:\n" + "".join(f"  - {{{entry}, description: d}}\n" for entry in entries)


GREET = "name: a, handler: listeners.greet.greet"
OTHER = "name: b, handler: listeners.greet.plain, payload_class: listeners.greet.Reply"


def test_a_duplicate_name_says_where_the_first_is(project):
    assert project.errors(organism(GREET, OTHER.replace("b,", "a,"))) == [
        'organism.yaml:4: listeners[1].name: duplicate listener "a" (first at organism.yaml:3)'
    ]


def test_peers_that_exist_or_are_the_systems(project):
    assert project.findings(organism(GREET + ", peers: [b, a, system.todo, system.anything]", OTHER)) == []
    assert project.findings(organism(GREET + ", peers: [system]")) == [
        'organism.yaml:3: listeners[0].peers[0]: unknown listener "system"'
    ]


def test_an_agent_says_who_its_peers_are(project):
    assert project.findings(organism(GREET + ", agent: true", OTHER + ", agent: true, peers: []")) == [
        (
            "organism.yaml:3: warning: listeners[0]: an agent without peers can only answer its caller "
            "(write peers: [] if intended)"
        )
    ]


def test_a_shared_payload_class_is_ambiguous_unless_all_broadcast(project):
    shared = (
        "name: b, handler: listeners.greet.plain, payload_class: listeners.greet.Greeting, broadcast: true"
    )
    assert project.findings(organism(GREET, shared)) == [
        (
            "organism.yaml:4: warning: listeners: Greeting is accepted by a, b: a message must select one with its to "
            "(or set broadcast: true on all of them)"
        )
    ]
    assert project.findings(organism(GREET + ", broadcast: true", shared)) == []


def test_two_classes_of_one_xml_name_are_refused(project):
    project.write("listeners/twin.py", CODE)
    assert project.findings(organism(GREET, "name: b, handler: listeners.twin.greet")) == [
        (
            "organism.yaml:4: Greeting (listeners/greet.py:7) and Greeting (listeners/twin.py:7) are both "
            "{urn:agentserver:payload:Greeting:v1}Greeting (give one of them another name or namespace)"
        ),
        (
            "organism.yaml:4: Reply (listeners/greet.py:12) and Reply (listeners/twin.py:12) are both "
            "{urn:agentserver:payload:Reply:v1}Reply (give one of them another name or namespace)"
        ),
    ]
