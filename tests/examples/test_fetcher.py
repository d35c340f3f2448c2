"""The page fetcher against a real HTTP server that does what servers should not."""

from __future__ import annotations

import gzip

import pytest

from agentserver import SystemError
from tests.examples.conftest import on_site, run, with_settings

pytestmark = pytest.mark.anyio


@pytest.fixture
def fetch(desk, web):
    async def fetch(path, **settings):
        organism = with_settings(on_site(desk, web), "fetcher", **settings)
        async with run(organism) as o:
            c = await o.open()
            url = path if "://" in path else f"{web.url}{path}"
            return await c.ask(o.make("Fetch", url), "fetcher")

    return fetch


async def test_a_page_is_its_title_its_text_and_its_links(fetch, web):
    web.page(
        "/",
        "<html><head><title> A\n page </title><style>p {}</style></head><body><!-- not this -->"
        "<h1>Otters</h1><p>They <b>swim</b>.</p><script>alert(1)</script>"
        "<p>See <a href='more.html#top'>more</a>, <a href='more.html'>more</a>, <a href='mailto:a@b.c'>mail</a>,"
        "<a href='http://x:port/'>bad</a>, <a>none</a><a href='/no-label'></a></p></body></html>",
    )
    page = await fetch("/")
    assert page.problem is None
    assert page.title == "A page"
    assert page.text == "Otters\nThey swim.\nSee more, more, mail,bad, none"
    assert [(link.label, link.url) for link in page.links] == [("more", f"{web.url}/more.html")]


async def test_plain_text_is_taken_as_it_is(fetch, web):
    web.page("/", "one <b>\n\n two\x07three\u202e\n", kind="text/plain; charset=utf-8")
    assert (await fetch("/")).text == "one <b>\ntwo three"


@pytest.mark.parametrize("body", ["", " ", "<!-- nothing -->", "<!doctype html>", "<html"])
async def test_an_empty_page_is_a_page(fetch, web, body):
    web.page("/", body)
    page = await fetch("/")
    assert (page.problem, page.text) == (None, "")


async def test_a_page_with_characters_that_no_message_can_carry_still_arrives(fetch, web):
    web.page("/", b"<title>\x01\x02</title><p>a\x00b\xff\xfe&#0;&#xFFFE;&#xD800;c</p>")
    page = await fetch("/")
    assert page.problem is None
    assert page.text.startswith("a")


async def test_a_deep_page_is_a_page(fetch, web):
    web.page("/", "<div>" * 20_000 + "<p>Down here.</p>")
    assert (await fetch("/")).problem is None


async def test_long_text_is_cut(fetch, web):
    web.page("/", "<p>" + "otter " * 1000 + "</p>")
    assert len((await fetch("/", characters=60)).text) == 60


async def test_a_redirect_to_a_permitted_place_is_followed(fetch, web):
    web.redirect("/old", "/new")
    web.page("/new", "<p>Here.</p>")
    page = await fetch("/old")
    assert (page.url, page.text) == (f"{web.url}/old", "Here.")


@pytest.mark.parametrize(
    "target",
    [
        "http://127.0.0.1:9/",
        "http://localhost/",
        "ftp://example.org/",
        "http://user@{host}/new",
        "file:///etc/passwd",
    ],
)
async def test_a_redirect_to_anywhere_else_is_not(fetch, web, target):
    web.redirect("/old", target.format(host=web.authority))
    web.page("/new", "<p>Here.</p>")
    page = await fetch("/old")
    assert page.problem in ("forbidden", "unreachable")
    assert web.asked == ["/old"]


async def test_redirects_come_to_an_end(fetch, web):
    web.redirect("/a", "/b")
    web.redirect("/b", "/a")
    assert (await fetch("/a", redirects=3)).problem == "too many redirects"
    assert web.asked == ["/a", "/b", "/a", "/b"]


@pytest.mark.parametrize(
    "url",
    [
        "http://example.org/",
        "https://{host}.evil.example/",
        "http://{name}/",
        "http://user@{host}/",
        "http://2130706433/",
    ],
)
async def test_a_host_that_is_not_permitted_is_not_asked(fetch, web, url):
    page = await fetch(url.format(host=web.authority, name="127.0.0.1"))
    assert page.problem in ("forbidden", "unreachable")
    assert web.asked == []


async def test_a_host_is_permitted_by_the_settings(fetch, web):
    web.page("/", "<p>Here.</p>")
    by_name = f"http://localhost:{web.authority.rpartition(':')[2]}/"
    assert (await fetch(by_name)).problem == "forbidden"
    assert (await fetch(by_name, hosts=[by_name[7:-1]])).text == "Here."


@pytest.mark.parametrize("url", ["file:///etc/passwd", "ftp://example.org/", "gopher://x/", "http://a b/"])
async def test_another_scheme_does_not_even_validate(fetch, url):
    refused = await fetch(url)
    assert isinstance(refused, SystemError)
    assert refused.code == "validation"


async def test_a_page_that_is_too_large_is_refused(fetch, web):
    web.page("/", "x" * 2000)
    assert (await fetch("/", size=1000)).problem == "too large"


async def test_compression_that_was_not_asked_for_is_refused(fetch, web):
    web.page("/", gzip.compress(b"x" * 100_000), Content_Encoding="gzip")
    assert (await fetch("/")).problem == "not a page of text"


@pytest.mark.parametrize("kind", ["image/png", "application/octet-stream", ""])
async def test_binary_content_is_refused(fetch, web, kind):
    web.page("/", "<p>Here.</p>", kind=kind)
    assert (await fetch("/")).problem == "not a page of text"


@pytest.mark.parametrize("status", [404, 500, 401])
async def test_a_page_that_is_not_there_is_missing(fetch, web, status):
    web.page("/", "<p>No.</p>", status=status)
    assert (await fetch("/")).problem == "missing"


async def test_a_slow_page_is_given_up(fetch, web):
    web.hang("/")
    assert (await fetch("/", seconds=0.3)).problem == "too slow"


async def test_a_server_that_speaks_no_http_is_unreachable(fetch, web):
    web.routes["/"] = lambda handler: handler.wfile.write(b"nonsense\r\n\r\n")
    assert (await fetch("/")).problem == "unreachable"
    assert (await fetch("http://127.0.0.1:9/", hosts=["127.0.0.1:9"])).problem == "unreachable"
