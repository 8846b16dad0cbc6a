# SPDX-License-Identifier: Apache-2.0
"""Replicas of `weir serve` that share one store, and load from many clients at once."""
import collections
import json
import os
import signal
import subprocess
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


def leased(*fields, most, chunk, lasts='1s', fails='closed', key='[tenant]'):
    return (*shared(*fields, fails=fails, key=key), f'lease: {{ most: {most}, chunk: {chunk}, for: {lasts} }}')


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

    def kill(self, i):
        """As a machine that loses its power."""
        self.servers[i].process.kill()
        self.servers[i].process.wait()

    def freeze(self, i):
        self.servers[i].process.send_signal(signal.SIGSTOP)

    def thaw(self, i):
        self.servers[i].process.send_signal(signal.SIGCONT)

    def drain(self, i):
        """As an operator who ends it; gives its log once it is gone."""
        self.servers[i].process.terminate()
        self.servers[i].process.wait(PATIENCE)
        return self.servers[i].log()

    def start_again(self, i):
        """In place of one that is gone: the same contract, another process."""
        self.servers[i].__exit__()
        self.servers[i] = Server(**self.options, env=self.environments[i])
        self.servers[i].__enter__()

    def logs(self, word):
        """How many lines of all replicas have it."""
        return sum(word in line for server in self.servers for line in server.log().splitlines())

    def metric(self, line):
        return sum(server.metric(line) for server in self.servers)


def is_ready(server):
    return server.ask('GET', '/readyz').text.startswith('ready')


def run_weir(*words):
    """What the program says on standard output; it must succeed."""
    done = subprocess.run([os.path.join(BUILD, 'weir'), *words], capture_output=True, text=True, timeout=PATIENCE,
                          env={name: value for name, value in os.environ.items() if not name.startswith('WEIR_')})
    assert done.returncode == 0, (words, done.stderr)
    return done.stdout


def explained(server, replicas):
    """What `weir explain` says of each limit of a server's contract, by its name."""
    told = json.loads(run_weir('explain', server.contract, '--replicas', str(replicas), '--json'))
    return {limit['name']: limit for limit in told['limits']}


def leases(server, store_url, limit='limit-0'):
    """What `weir fleet leases` says of each key of a limit, by its tenant (or '')."""
    lines = run_weir('fleet', 'leases', server.contract, '--store', store_url, '--limit', limit, '--json').splitlines()
    return {(told['key'] or {}).get('tenant', ''): told for told in map(json.loads, lines)}


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
