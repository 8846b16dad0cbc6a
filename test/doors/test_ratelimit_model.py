# SPDX-License-Identifier: Apache-2.0
# LABELS: e2e
"""weir in the place of envoyproxy/ratelimit says what a model of it says, over random rules and calls in virtual time, through /json
and gRPC; and without --ratelimit-compatible what a model says that decides all or nothing."""
import os
import random
import sys

from ratelimit import Descriptor, Folder, Original, Ratelimit, Whole, call_body

KEYS = ['alpha', 'Beta', 'path']
VALUES = ['x', 'y', 'xy', 'xxy', 'z/1', '']
WILD = ['x*', '*y', 'x*y', 'z/*']
START = 300_000


def limit(rng, names, has_quota, counts):
    rate = {'unit': rng.choice(['second', 'minute', 'MINUTE', 'Hour', 'day']), 'requests_per_unit': rng.choice(counts)}
    node = {'rate_limit': rate}
    if rng.random() < 0.3:
        rate['name'] = f'named-{len(names)}'
        names.append(rate['name'])
    if rng.random() < 0.15:
        node['shadow_mode'] = True
    elif has_quota and rng.random() < 0.3:
        node['quota_mode'] = True
    if rng.random() < 0.1:
        node['rate_limit'] = {'unlimited': True}
        node.pop('quota_mode', None)
        node.pop('shadow_mode', None)
    return node


def level(rng, names, has_quota, counts, depth):
    nodes = []
    for key in KEYS:
        for value in rng.sample(VALUES[:-1] + WILD + [None], rng.randrange(1, 5)):
            node = {'key': key}
            if value is not None:
                node['value'] = value
            if value is not None and '*' in value and rng.random() < 0.4:
                node['share_threshold'] = True
            if rng.random() < 0.8:
                node.update(limit(rng, names, has_quota, counts))
            if depth > 1 and rng.random() < 0.35:
                node['descriptors'] = level(rng, names, has_quota, counts, depth - 1)
            nodes.append(node)
    return nodes


def rules(rng, domain, has_quota, counts):
    names = []
    made = {'domain': domain, 'descriptors': level(rng, names, has_quota, counts, 2)}
    # A rule of a key that no other has replaces up to two by name: the only way that weir follows.
    made['descriptors'].append({'key': 'vip', 'value': 'gold', 'rate_limit': {
        'unit': 'minute', 'requests_per_unit': 4, 'replaces': [{'name': n} for n in names[:2]]}})
    return made


def descriptor(rng, hits):
    entries = [(rng.choice(KEYS), rng.choice(VALUES)) for _ in range(rng.choice([1, 1, 1, 2, 2, 3]))]
    if rng.random() < 0.1:
        entries = [('vip', rng.choice(['gold', 'silver']))]
    return Descriptor(entries, rng.choice(hits))


def compare(model, compatible, seed, hits, counts, is_twice_allowed):
    rng = random.Random(seed)
    domains = [rules(rng, name, compatible, counts) for name in ('one', 'two')]
    twin = model(domains)
    args = ('--grpc', '127.0.0.1:0') + (('--ratelimit-compatible',) if compatible else ())
    now, passed, refused = START * 10**9, 0, 0
    with Folder({f'{d["domain"]}.yaml': d for d in domains}) as folder, \
            Ratelimit(folder.path, virtual=True, args=args) as weir:
        for number in range(1500):
            now += rng.choice([0, 0, 1, 10**6, 3 * 10**8, 10**9, 7 * 10**9])
            domain = rng.choice(['one', 'one', 'two', 'none'])
            asked = [descriptor(rng, hits) for _ in range(rng.choice([1, 1, 2, 3, 5]))]
            vips = [d for d in asked if d.entries[0][0] == 'vip']
            # Which of two values of one key decides about `replaces` differs: docs/ratelimit.md.
            asked = [d for d in asked if d not in vips[1:]]
            if not is_twice_allowed:
                asked = list({tuple(d.entries): d for d in asked}.values())
            all_hits = rng.choice([None, 0, 1, 2])
            wanted = twin.call(domain, asked, now // 10**9, all_hits)
            is_ok = wanted['overallCode'] == 'OK'
            if rng.random() < 0.5:
                code, told = weir.grpc(domain, asked, all_hits, now)
                assert code == 0, code
            else:
                reply = weir.call(call_body(domain, asked, all_hits), now)
                assert reply.status == (200 if is_ok else 429), reply.status
                told = reply.json
            for beside in ('responseHeadersToAdd', 'rawBody'):  # of weir's own, without --ratelimit-compatible
                assert beside not in told or not compatible
                told.pop(beside, None)
            if not compatible:  # names are those of weir's limits, and an untouched window has nothing to reset
                for status, meant in zip(told['statuses'], wanted['statuses']):
                    for each in (status, meant):
                        each.get('currentLimit', {}).pop('name', None)
                        each.pop('durationUntilReset', None)
            assert told == wanted, (seed, number, call_body(domain, asked, all_hits), 'weir', told, 'model', wanted)
            passed += is_ok
            refused += not is_ok
    assert passed > 100 and refused > 100, (passed, refused)  # else nothing was compared
    return passed, refused


def run(seed):
    hits = [None, None, None, 0, 1, 2, 3, 9]
    print('as the original', compare(Original, True, seed, hits, [0, 1, 2, 3, 5, 8], True))
    print('all or nothing', compare(Whole, False, seed + 1, hits, [0, 1, 2, 3, 5, 8], False))


if __name__ == '__main__':
    start = int(os.environ.get('WEIR_SEED', '20261201'))
    for each in range(start, start + int(os.environ.get('WEIR_RUNS', '2'))):
        print('seed', each)
        sys.stdout.flush()
        run(each)
