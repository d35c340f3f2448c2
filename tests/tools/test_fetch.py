"""The fetcher against a real server on this machine, which the settings allow."""

from __future__ import annotations

import asyncio
import ssl
import subprocess
from contextlib import asynccontextmanager
from dataclasses import replace

import anyio
import pytest

from agentserver.tools.fetch import LINKS, Fetch, FetchedPage, FetchProblem, FetchSettings, fetch
from agentserver.tools.pages import render_page
from tests.core.paper import listener
from tests.machine import HANGS
from tests.pump.desk import desk
from tests.tools.web import page, redirect_to, web

pytestmark = pytest.mark.anyio

HERE = FetchSettings(hosts=["localhost"], networks=["127.0.0.0/8", "::1/128"], seconds=HANGS)


@asynccontextmanager
async def site(tls=None, **more):
    async with web(tls) as there:
        settings = replace(HERE, ports=[there.port], **more)
        async with desk(
            (listener("fetch", payloads=(Fetch,), deadline=30.0), fetch),
            settings=settings,
            payloads=(FetchedPage,),
        ) as d:

            async def get(path, host="localhost", scheme="http"):
                url = path if "://" in path else f"{scheme}://{host}:{there.port}{path}"
                return await d.ask(Fetch(url), "fetch")

            yield there, get


async def test_a_page_is_reduced_to_its_visible_text():
    async with site() as (there, get):
        html = "<html><title> A  page </title><script>x()</script><p>One &amp; two<p>three</html>"
        there.pages["/a?b=c"] = page(html, "200 OK", "text/html; charset=utf-8")
        found = await get("/a?b=c#part")
        assert (found.title, found.text, found.status, found.problem) == (
            "A page",
            "One & two\nthree",
            200,
            None,
        )
        assert found.url == f"http://localhost:{there.port}/a?b=c#part"
        assert there.hosts() == [f"Host: localhost:{there.port}"]
        assert "accept-encoding: identity" in there.asked[0].lower()


async def test_links_are_whole_and_lead_to_pages():
    async with site() as (there, get):
        html = (
            '<a href="b?c#d">one</a><a href="b?c#d">one</a><a href="//x.example/y">two</a><a href="mailto:a@b.c">no</a>'
            '<a href="http://a:b/">no</a><a href="javascript:x()">no</a><a href="/z"></a><a href="http://h/\u00e4">three</a>'
        )
        there.pages |= {"/a": redirect_to("/f/a"), "/f/a": page(html, "200 OK", "text/html; charset=utf-8")}
        found = await get("/a")
        here = f"http://localhost:{there.port}"
        assert [(link.label, link.url) for link in found.links] == [
            ("one", f"{here}/f/b?c"),
            ("two", "http://x.example/y"),
            ("three", "http://h/%C3%A4"),
        ]
        there.pages["/"] = page("".join(f'<a href="/{number}">x</a>' for number in range(LINKS + 9)))
        assert len((await get("/")).links) == LINKS


async def test_a_text_keeps_its_lines_and_loses_invisible_characters():
    async with site() as (there, get):
        there.pages["/"] = page(b"a {\r\n    b\x00\x1b[31m\n}\n\xff", "200 OK", "text/plain")
        assert (await get("/")).text == "a {\n    b  [31m\n}\n\N{REPLACEMENT CHARACTER}"
        there.pages["/"] = page("x", "200 OK", "text/plain; charset=made-up")
        assert (await get("/")).text == "x"


@pytest.mark.parametrize("name", ["punycode", "idna", "unicode_escape", "rot13", "zlib", "undefined"])
async def test_an_encoding_that_no_page_has_is_not_used(name):
    async with site() as (there, get):
        there.pages["/"] = page(b"a-b" * 50_000, "200 OK", f"text/plain; charset={name}")
        assert (await get("/")).text.startswith("a-ba-b")


def test_links_in_one_another_have_a_label_each():
    nested = "".join(f"<a href=x{at}><div>{at} " for at in range(200)) + "x" * 500_000
    assert [label for label, _ in render_page(nested).links][:3] == ["0", "1", "2"]
    assert render_page("<a href=x>one <b>two</b> three</a> four").links == (("one two three", "x"),)


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (page("no", "404 Not Found"), FetchProblem.STATUS),
        (page("no", "302 Found"), FetchProblem.STATUS),  # without a place to go
        (page(b"\x89PNG", "200 OK", "image/png"), FetchProblem.TYPE),
        (page(b"\x1f\x8b", "200 OK", "text/html", "Content-Encoding: gzip"), FetchProblem.TYPE),
        (page("x" * 2000), FetchProblem.SIZE),
        (b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nTransfer-Encoding: chunked\r\n\r\n3e8\r\n" + b"x" * 1000 + b"\r\n1\r\nx\r\n0\r\n\r\n", FetchProblem.SIZE),
        (b"nonsense\r\n\r\n", FetchProblem.UNREACHABLE),
        (b"HTTP/1.1 200 OK\r\nX: " + b"x" * 200_000, FetchProblem.UNREACHABLE),
        (b"", FetchProblem.UNREACHABLE),
    ],
    ids=["404", "302", "a picture", "packed", "long", "chunked and long", "no HTTP", "endless header", "nothing"],
)  # fmt: skip
async def test_an_unreadable_page_has_a_reason(answer, problem):
    async with site(size=1000) as (there, get):
        there.pages["/"] = answer
        found = await get("/")
        assert (found.problem, found.text) == (problem, "")


async def test_who_answers_too_slowly_is_given_up():
    async def drip(writer):
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n")
        while True:
            writer.write(b"x")
            await writer.drain()
            await asyncio.sleep(0.02)

    async with site(seconds=0.3) as (there, get):
        there.pages["/"] = drip
        with anyio.fail_after(HANGS):
            assert (await get("/")).problem is FetchProblem.TIME


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1:{port}/",  # the name was allowed, not the address
        "http://localhost.evil.example:{port}/",
        "http://localhost:1/",
        "http://localhost/",
        "http://user:secret@localhost:{port}/",
        "https://example.org:{port}/",
        "http://[::1]:{port}/",
    ],
)
async def test_hosts_outside_the_settings_are_not_asked(url):
    async with site() as (there, get):
        assert (await get(url.format(port=there.port))).problem is FetchProblem.FORBIDDEN
        assert there.asked == []


@pytest.mark.parametrize(
    ("hosts", "host", "asks"),
    [
        ([], "example.org", False),
        (["example.org"], "example.org", True),
        (["Example.org"], "example.org", True),
        (["example.org"], "www.example.org", False),
        (["*.example.org"], "www.example.org", True),
        (["*.example.org"], "example.org", False),
        (["*.example.org"], "badexample.org", False),
        (["*"], "anything.example", True),
    ],
)
def test_hosts_are_named_whole_or_by_a_parent_domain(hosts, host, asks):
    assert FetchSettings(hosts=hosts).asks(host, 443) is asks
    assert not FetchSettings(hosts=hosts).asks(host, 8080)


def test_an_invalid_network_is_an_error_of_the_settings():
    with pytest.raises(ValueError, match="host bits"):
        FetchSettings(networks=["10.0.0.1/8"])


async def test_an_address_of_this_machine_is_refused_unless_its_network_is_named():
    async with site(networks=[]) as (there, get):
        there.pages["/"] = page("secret")
        assert (await get("/")).problem is FetchProblem.FORBIDDEN
        assert there.asked == []


async def names(answers, asked):
    """Let the loop resolve a name to one list of addresses after the other."""
    loop = asyncio.get_running_loop()
    real = loop.getaddrinfo

    async def record_found(host, port, **more):
        if host not in answers:
            return await real(host, port, **more)
        asked.append(host)
        addresses = answers[host].pop(0) if len(answers[host]) > 1 else answers[host][0]
        return [(2, 1, 6, "", (address, port)) for address in addresses]

    loop.getaddrinfo = record_found


async def test_a_name_is_resolved_once_and_its_next_meaning_is_not_asked():
    asked = []
    async with site(hosts=["rebind.example"]) as (there, get):
        await names({"rebind.example": [["127.0.0.1"], ["10.0.0.1"]]}, asked)
        there.pages["/"] = page("here")
        assert (await get("/", "rebind.example")).text == "here"
        assert asked == ["rebind.example"]
        assert there.hosts() == [f"Host: rebind.example:{there.port}"]
        assert (await get("/", "rebind.example")).problem is FetchProblem.FORBIDDEN


async def test_one_forbidden_address_forbids_the_name():
    async with site(hosts=["*"]) as (there, get):
        await names({"two.example": [["127.0.0.1", "169.254.169.254"]]}, [])
        assert (await get("/", "two.example")).problem is FetchProblem.FORBIDDEN
        assert there.asked == []


@pytest.mark.parametrize(
    "status", ["301 Moved", "302 Found", "303 See Other", "307 Temporary", "308 Permanent"]
)
async def test_a_redirect_is_followed_below_the_name_that_was_asked(status):
    async with site() as (there, get):
        there.pages |= {
            "/a": redirect_to("/b/c", status),
            "/b/c": redirect_to("d", status),
            "/b/d": page("there"),
        }
        found = await get("/a")
        assert (found.text, len(there.asked)) == ("there", 3)
        assert found.url.endswith("/a")
        assert set(there.hosts()) == {f"Host: localhost:{there.port}"}


async def test_a_redirect_is_judged_as_the_first_address_was():
    async with site(hosts=["localhost", "meta.example"]) as (there, get):
        await names({"meta.example": [["169.254.169.254"]]}, [])
        for to in ("http://meta.example:{port}/", "http://other.example:{port}/", "ftp://localhost:{port}/", "file:///etc/passwd", "//127.0.0.1:{port}/"):  # fmt: skip
            there.pages["/"] = redirect_to(to.format(port=there.port))
            assert (await get("/")).problem is FetchProblem.FORBIDDEN, to
        assert len(there.asked) == 5


async def test_redirects_come_to_an_end():
    async with site(redirects=3) as (there, get):
        there.pages["/"] = redirect_to("/")
        assert (await get("/")).problem is FetchProblem.REDIRECTS
        assert len(there.asked) == 4


async def test_who_is_not_there_is_unreachable():
    async with site() as (_, get):
        await names({"localhost": [["127.0.0.2"]]}, [])
        assert (await get("/")).problem is FetchProblem.UNREACHABLE


def certificate(folder, name):
    """A certificate for one name, signed by itself."""
    made = subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", f"/CN={name}",
         "-addext", f"subjectAltName=DNS:{name}", "-keyout", folder / "key.pem", "-out", folder / "cert.pem"],
        check=False, capture_output=True,
    )  # fmt: skip
    if made.returncode:
        pytest.skip("no openssl")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "cert.pem", folder / "key.pem")
    return context, str(folder / "cert.pem")


@pytest.fixture(scope="module")
def signed_certificate(tmp_path_factory):
    return certificate(tmp_path_factory.mktemp("tls"), "safe.example")


async def test_the_certificate_is_held_against_the_name_though_the_address_is_connected_to(
    signed_certificate,
):
    context, trusted = signed_certificate
    heard = []
    context.sni_callback = lambda _, name, __: heard.append(name)
    async with site(context, hosts=["safe.example", "other.example"], authorities=trusted) as (there, get):
        await names({"safe.example": [["127.0.0.1"]], "other.example": [["127.0.0.1"]]}, [])
        there.pages["/"] = page("sealed")
        assert (await get("/", "safe.example", "https")).text == "sealed"
        assert (await get("/", "other.example", "https")).problem is FetchProblem.UNREACHABLE
        assert heard == ["safe.example", "other.example"]
        assert len(there.asked) == 1
        there.pages["/"] = redirect_to(f"http://safe.example:{there.port}/")
        assert (await get("/", "safe.example", "https")).problem is FetchProblem.FORBIDDEN


async def test_an_untrusted_certificate_is_refused(signed_certificate):
    async with site(signed_certificate[0], hosts=["safe.example"]) as (there, get):
        await names({"safe.example": [["127.0.0.1"]]}, [])
        assert (await get("/", "safe.example", "https")).problem is FetchProblem.UNREACHABLE
        assert there.asked == []


async def test_without_its_settings_it_names_the_keys_to_declare(caplog):
    async with desk((listener("fetch", payloads=(Fetch,)), fetch), payloads=(FetchedPage,)) as d:
        await d.ask(Fetch("http://localhost/"), "fetch")
    assert "settings_class: agentserver.tools.fetch.FetchSettings" in caplog.text
