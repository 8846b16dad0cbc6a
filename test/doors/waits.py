# SPDX-License-Identifier: Apache-2.0
"""Requests that wait, for the tests of doors: each on a connection of its own, in virtual time or in real.

In virtual time every request's stamp is its `Weir-Now`; what waits up to it is answered first, and nothing else moves time.
"""
import json
import select

from door import Server, request, wait_for

S = 10**9


def stamp(at):
    return ('Weir-Now', str(round(at * S)))


class Waiting:
    """A server in virtual time, with requests that wait."""

    def __init__(self, contract, **more):
        self.server = Server(contract, virtual=True, args=('--workers', '1'), **more)
        self.connections = []

    def __enter__(self):
        self.server.__enter__()
        return self

    def __exit__(self, *problem):
        for connection in self.connections:
            connection.socket.close()  # which ends what still waits
        self.server.__exit__(*problem)

    def post(self, path, body, at=0, headers=()):
        return self.server.ask('POST', path, body if isinstance(body, str) else json.dumps(body), [stamp(at), *headers])

    def go(self, at):
        """It is `at` now."""
        assert self.server.ask('GET', '/healthz', headers=[stamp(at)]).status == 200

    def waiting(self, at=0):
        for line in self.server.ask('GET', '/metrics', headers=[stamp(at)]).text.splitlines():
            if line.startswith('weir_waiting '):
                return int(line.split()[1])
        raise AssertionError('no weir_waiting')

    def park(self, body, at=0, path='/v1/check', headers=(), method='POST'):
        """A request that waits; returns its connection once it does."""
        before = self.waiting(at)
        connection = self.server.connect()
        self.connections.append(connection)
        body = body if isinstance(body, (str, bytes)) else json.dumps(body)
        connection.send(request(method, path, body, [stamp(at), *headers]))
        wait_for(lambda: self.waiting(at) == before + 1 or is_ready(connection))
        assert not is_ready(connection), f'it did not wait: {connection.reply().text}'
        return connection


def is_ready(connection):
    """Whether a reply, or the end, has come."""
    return connection.buffer != b'' or select.select([connection.socket], [], [], 0)[0] != []


def body(wait=None, **more):
    """A body about tenant acme at /q."""
    attributes = {'tenant': 'acme', 'path': '/q', **more.pop('attributes', {})}
    result = {'attributes': attributes, **more}
    if wait is not None:
        result['wait'] = wait
    return result
