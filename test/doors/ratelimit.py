# SPDX-License-Identifier: Apache-2.0
"""envoyproxy/ratelimit as its documentation and source tell it, small and obvious: a tree of rules, a counter for each key and
window. And `weir serve --ratelimit-config` to compare it with.

    rules = Rules({'domain': 'd', 'descriptors': [{'key': 'k', 'rate_limit': {'unit': 'minute', 'requests_per_unit': 3}}]})
    Original([rules]).call('d', [Descriptor([('k', 'v')])], now_seconds)
"""
import json
import os
import shutil
import re
import tempfile

from door import Server
from h2 import H2, call, descriptor, fields_of

SECONDS = {'second': 1, 'minute': 60, 'hour': 3600, 'day': 86400, 'week': 604800, 'month': 30 * 86400,
           'year': 365 * 86400}


class Folder:
    """A folder of YAML files; JSON is YAML."""

    def __init__(self, files):
        self.parent = tempfile.mkdtemp(prefix='weir-ratelimit-')
        self.path = os.path.join(self.parent, 'config')
        os.mkdir(self.path)
        for name, content in files.items():
            self.write(name, content)

    def write(self, name, content):
        path = os.path.join(self.path, name)
        with open(path + '.new', 'w') as file:
            file.write(content if isinstance(content, str) else json.dumps(content))
        os.rename(path + '.new', path)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        shutil.rmtree(self.parent, ignore_errors=True)


class Ratelimit(Server):
    """`weir serve --ratelimit-config FOLDER`."""

    def __init__(self, folder, **more):
        self.folder = folder
        self.connection = self.stream = None
        super().__init__(contract='', **more)

    def popen_path(self):
        return '--ratelimit-config=' + self.folder

    def call(self, body, now=None):
        """One POST of /json on a connection that is kept; `now` in ns."""
        if self.connection is None:
            self.connection = self.connect()
        headers = [] if now is None else [('Weir-Now', str(now))]
        return self.connection.ask('POST', '/json', body if isinstance(body, str) else json.dumps(body), headers)

    def grpc(self, domain, descriptors, hits=None, now=None):
        """The same over gRPC: the status of its reply, and the answer as `/json` would write it."""
        if self.stream is None:
            self.stream = H2(int(re.search(r'^listening grpc .*:(\d+)$', self.log(), re.M).group(1)))
        message = [descriptor(d.entries, d.hits) for d in descriptors]
        extra = [] if now is None else [('weir-now', str(now))]
        reply = self.stream.should(*message, domain=domain, hits=hits, extra=extra)
        return reply.code, as_json(reply.messages[0]) if reply.code == 0 else None

    def __exit__(self, *args):
        if self.stream is not None:
            self.stream.socket.close()
        if self.connection is not None:
            self.connection.socket.close()
        super().__exit__(*args)


CODES = {0: 'UNKNOWN', 1: 'OK', 2: 'OVER_LIMIT'}
UNITS = {1: 'SECOND', 2: 'MINUTE', 3: 'HOUR', 4: 'DAY', 5: 'MONTH', 6: 'YEAR', 7: 'WEEK'}


def as_json(message):
    """A RateLimitResponse as JSON has it, its statuses alone."""
    out = {'overallCode': 'UNKNOWN', 'statuses': []}
    for field, value in fields_of(message):
        if field == 1:
            out['overallCode'] = CODES[value]
        if field == 2:
            out['statuses'].append(status_as_json(dict(fields_of(value))))
    return out


def status_as_json(fields):
    out = {'code': CODES[fields.get(1, 0)]}
    if 2 in fields:
        limit = dict(fields_of(fields[2]))
        out['currentLimit'] = {name: value for name, value in (
            ('requestsPerUnit', limit.get(1)), ('unit', UNITS.get(limit.get(2))),
            ('name', limit[3].decode() if 3 in limit else None)) if value}
    if 3 in fields:
        out['limitRemaining'] = fields[3]
    if 4 in fields:
        out['durationUntilReset'] = f'{dict(fields_of(fields[4])).get(1, 0)}s'
    return out


# ---- The model ------------------------------------------------------------------------------------------------------------


class Descriptor:
    def __init__(self, entries, hits=None):
        self.entries = entries
        self.hits = hits  # of the descriptor; None: the call's

    def body(self):
        body = {'entries': [{'key': k, 'value': v} for k, v in self.entries]}
        if self.hits is not None:
            body['hitsAddend'] = str(self.hits)
        return body


def call_body(domain, descriptors, hits=None):
    body = {'domain': domain, 'descriptors': [d.body() for d in descriptors]}
    if hits is not None:
        body['hitsAddend'] = hits
    return body


def matches(pattern, value):
    """A value with stars: each stands for any text, also for none."""
    first, *rest = pattern.split('*')
    if not value.startswith(first):
        return False
    at = len(first)
    for i, part in enumerate(rest):
        if i == len(rest) - 1:
            return value.endswith(part) and len(value) - len(part) >= at
        at = value.find(part, at)
        if at < 0:
            return False
        at += len(part)
    return True


def find(rules, entries):
    """The rule that the last entry arrives at, and the entries as they are counted."""
    level, counted, found = rules.get('descriptors', []), [], None
    for key, value in entries:
        mine = [node for node in level if node['key'] == key]
        found = ([n for n in mine if n.get('value') and '*' not in n['value'] and n['value'] == value]
                 or [n for n in mine if '*' in n.get('value', '') and matches(n['value'], value)]
                 or [n for n in mine if not n.get('value')] or [None])[0]
        if found is None:
            return None, None
        counted.append((key, found['value'] if found.get('share_threshold') else value))
        level = found.get('descriptors', [])
    return found, tuple(counted)


class Model:
    def __init__(self, domains):
        self.domains = {rules['domain']: rules for rules in domains}
        self.counts = {}

    def limits(self, domain, descriptors):
        """For each descriptor its rule and counted entries, (None, None) where none has a say."""
        found = [find(self.domains[domain], d.entries) if domain in self.domains else (None, None) for d in descriptors]
        found = [(n, k) if n is not None and 'rate_limit' in n else (None, None) for n, k in found]
        replaced = {r['name'] for n, _ in found if n is not None for r in n['rate_limit'].get('replaces', [])}
        return [(None, None) if n is not None and n['rate_limit'].get('name') in replaced else (n, k) for n, k in found]

    @staticmethod
    def hits(descriptor, hits):
        return descriptor.hits if descriptor.hits is not None else max(1, hits or 0)

    def key(self, domain, node, counted, now):
        return domain, counted, now // SECONDS[node['rate_limit']['unit'].lower()]


def status_of(node, code, remaining, now):
    limit = node['rate_limit']
    period = SECONDS[limit['unit'].lower()]
    status = {'code': code, 'currentLimit': {'requestsPerUnit': limit['requests_per_unit'], 'unit': limit['unit'].upper()},
              'limitRemaining': remaining, 'durationUntilReset': f'{period - now % period}s'}
    if 'name' in limit:
        status['currentLimit']['name'] = limit['name']
    status['currentLimit'] = {k: v for k, v in status['currentLimit'].items() if v != 0}
    return {k: v for k, v in status.items() if v != 0}


class Original(Model):
    """Every descriptor by itself; what is refused counts."""

    def call(self, domain, descriptors, now, hits=None):
        statuses, over, quota = [], False, []
        for descriptor, (node, counted) in zip(descriptors, self.limits(domain, descriptors)):
            if node is None or node['rate_limit'].get('unlimited'):
                statuses.append({'code': 'OK'})
                continue
            added = self.hits(descriptor, hits)
            key = self.key(domain, node, counted, now)
            before = self.counts.get(key, 0)
            self.counts[key] = before + added
            most = node['rate_limit']['requests_per_unit']
            # One thing is not so there: a look (hits 0) is not over here, whatever was refused before it.
            is_over = before + added > most and added > 0
            code = 'OVER_LIMIT' if is_over and not node.get('shadow_mode') else 'OK'
            statuses.append(status_of(node, code, max(0, most - before - added), now))
            if node.get('quota_mode'):
                quota.append(code == 'OVER_LIMIT')
            else:
                over = over or code == 'OVER_LIMIT'
        over = over or (quota != [] and all(quota))
        return {'overallCode': 'OVER_LIMIT' if over else 'OK', 'statuses': statuses}


class Whole(Model):
    """All descriptors as one: where one refuses none is charged."""

    def call(self, domain, descriptors, now, hits=None):
        found = self.limits(domain, descriptors)
        wanted = {}  # by key: the rule, and hits of all that ask for it
        for descriptor, (node, counted) in zip(descriptors, found):
            if node is not None and not node['rate_limit'].get('unlimited'):
                key = self.key(domain, node, counted, now)
                wanted.setdefault(key, [node, 0])[1] += self.hits(descriptor, hits)
        fits = {key: added == 0 or self.counts.get(key, 0) + added <= node['rate_limit']['requests_per_unit']
                for key, (node, added) in wanted.items()}
        passes = all(fits[key] or node.get('shadow_mode') for key, (node, _) in wanted.items())
        for key, (node, added) in wanted.items():
            if passes and fits[key]:
                self.counts[key] = self.counts.get(key, 0) + added
        statuses = []
        for descriptor, (node, counted) in zip(descriptors, found):
            if node is None or node['rate_limit'].get('unlimited') or node.get('shadow_mode'):
                statuses.append({'code': 'OK'})  # a limit that only watches is not told
                continue
            key = self.key(domain, node, counted, now)
            code = 'OK' if fits[key] else 'OVER_LIMIT'
            left = node['rate_limit']['requests_per_unit'] - self.counts.get(key, 0)
            statuses.append(status_of(node, code, left, now))
        return {'overallCode': 'OK' if passes else 'OVER_LIMIT', 'statuses': statuses}
