# SPDX-License-Identifier: Apache-2.0
"""Replicas of `weir serve` that share one store, and load from many clients at once."""
import collections
import json
import os
import sys
import threading

HERE = os.path.dirname(os.path.abspath(__file__))
for _folder in ('support', 'doors'):
    sys.path.insert(0, os.path.join(HERE, '..', _folder))
from door import BUILD, PATIENCE, Server, wait_for  # noqa: E402,F401

# Where counts must be exact, nothing may come too late on a machine that is busy with other tests.
UNHURRIED = '5s'


def contract(*limits, deadline=UNHURRIED):
    """A contract of these limits, each the text behind its name: ('rate: 5/s', 'burst: 20', ...)."""
    lines = ['weir: 1', 'store: { deadline: %s }' % deadline, 'limits:']
    for i, fields in enumerate(limits):
        if not fields[0].startswith('name:'):
            fields = ('name: limit-%d' % i, *fields)
        lines.append('  - ' + '\n    '.join(fields))
    return '\n'.join(lines) + '\n'


def shared(*fields, fails='closed', key='[tenant]'):
    return (*fields, 'key: ' + key, 'scope: fleet', 'when-store-fails: ' + fails)


class Fleet:
    """`count` processes with this contract and this store. Environments may differ: env[i] is added to replica i's."""

    def __init__(self, text, store_url, count=4, workers=2, env=(), is_ready=True, args=()):
        self.is_ready = is_ready
        self.servers = []
        self.options = dict(contract=text, args=['--workers', str(workers), *args])
        self.environments = [dict({'WEIR_STORE': store_url} if store_url else {}, **(env[i] if i < len(env) else {}))
                             for i in range(count)]

    def __enter__(self):
        try:
            for environment in self.environments:
                self.servers.append(Server(**self.options, env=environment))
                self.servers[-1].__enter__()
            if self.is_ready:
                wait_for(lambda: all(is_ready(server) for server in self.servers))
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        errors = []
        for server in self.servers:
            try:
                server.__exit__()
            except BaseException as error:
                errors.append(error)
        if errors:
            raise errors[0]

    def __getitem__(self, i):
        return self.servers[i]

    def logs(self, word):
        """How many lines of all replicas have it."""
        return sum(word in line for server in self.servers for line in server.log().splitlines())

    def metric(self, line):
        return sum(server.metric(line) for server in self.servers)


def is_ready(server):
    return server.ask('GET', '/readyz').text.startswith('ready')


def body(tenant='acme', **more):
    attributes = dict({'tenant': tenant}, **more.pop('attributes', {}))
    return json.dumps(dict({'attributes': attributes}, **more))


def check(server, tenant='acme', path='/v1/check', **more):
    """One decision as JSON, with its status and fields."""
    return answer_of(server.ask('POST', path, body(tenant, **more)))


def answer_of(reply):
    told = reply.json
    told['http'] = reply.status
    told['fields'] = reply.fields
    return told


def decisions(answers):
    return collections.Counter(answer['decision'] for answer in answers)


def storm(servers, each, clients=5, path='/v1/check', tenant='acme', stop=None, **more):
    """`each` requests to every server, by so many clients each, all at once; gives all answers in order of arrival.

    tenant: a name, or a function of the request's number. stop: an Event that ends it early."""
    answers, failures = [], []
    gate = threading.Barrier(len(servers) * clients)

    def client(server, first):
        try:
            with server.connect() as connection:
                gate.wait(PATIENCE)
                for number in range(first, each, clients):
                    if stop is not None and stop.is_set():
                        return
                    name = tenant(number) if callable(tenant) else tenant
                    answers.append(answer_of(connection.ask('POST', path, body(name, **more))))
                    answers[-1]['tenant'] = name
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=client, args=(server, first)) for server in servers for first in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
    return answers
