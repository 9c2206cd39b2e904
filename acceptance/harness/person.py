"""A person with a browser, without the browser: signs in at django-oauth-toolkit, allows, and follows redirects."""

import html
import re
import urllib.parse

import requests


class Person:
    """`ada`; remembers her session."""

    def __init__(self):
        self.session = requests.Session()

    def _form(self, page):
        fields = {}
        for tag in re.findall(r"<input[^>]*>", page.text):
            name = re.search(r'name="([^"]*)"', tag)
            value = re.search(r'value="([^"]*)"', tag)
            if name:
                fields[html.unescape(name[1])] = html.unescape(value[1]) if value else ""
        return fields

    def decide(self, address, allow=True):
        """Opens the page of a login; returns the address that the browser is sent to at its end."""
        page = self.session.get(address, timeout=20)
        if "/login/" in page.url:
            form = {**self._form(page), "username": "ada", "password": "pw-of-ada"}
            page = self.session.post(page.url, data=form, timeout=20)
        form = self._form(page)
        if allow:
            form["allow"] = "Authorize"
        else:
            form.pop("allow", None)
        answer = self.session.post(page.url, data=form, allow_redirects=False, timeout=20)
        assert answer.status_code == 302, answer.text
        return answer.headers["Location"]


def changed(address, **parameters):
    """The address with other parameters in its query; None removes one."""
    parts = urllib.parse.urlsplit(address)
    query = dict(urllib.parse.parse_qsl(parts.query))
    query.update(parameters)
    text = urllib.parse.urlencode({name: value for name, value in query.items() if value is not None})
    return urllib.parse.urlunsplit(parts._replace(query=text))
