# SPDX-License-Identifier: Apache-2.0
# LABELS: slow
"""Many clients at once in real time, on two workers: they wait, acquire, release, hang up in the middle, and the contract is
reloaded meanwhile. Never more hold a permit than may; in the end nobody waits and every permit is back.

What happens is drawn from a seed that WEIR_SEED replays, as far as threads can be replayed.
"""
import json
import os
import random
import threading
import unittest

from door import Server, request, wait_for

SEED = int(os.environ.get('WEIR_SEED', '20260205'))
CLIENTS = 24
ROUNDS = 200
AT_MOST = 5

CONTRACT = f"""
weir: 1
limits:
  - name: jobs
    when: {{ path: /jobs }}
    key: [tenant]
    algorithm: concurrency
    at-most: {AT_MOST}
    hold: 1h
    wait: {{ up-to: 60s, queue: 1000 }}
  - name: pace
    when: {{ path: [/q, /jobs] }}
    key: [tenant]
    rate: 2000/s
    burst: 1
    wait: {{ up-to: 60s, queue: 1000 }}
  - name: changes
    when: {{ path: /else }}
    key: [tenant]
    rate: 1/s
    burst: 1
"""


class Storm(unittest.TestCase):
    def setUp(self):
        self.lock = threading.Lock()
        self.holding = 0
        self.most = 0
        self.fences = []
        self.problems = []

    def ask(self, connection, path, body):
        connection.send(request('POST', path, json.dumps(body)))
        return connection.reply()

    def work(self, server, draw):
        """One permit on a connection of its own, given back in one of three ways."""
        is_bound = draw.random() < 0.3
        body = {'attributes': {'tenant': 'a', 'path': '/jobs'}, 'wait': draw.choice([0, 0.001, 1, 50])}
        if is_bound:
            body['bind'] = 'connection'
        with server.connect() as connection:
            if draw.random() < 0.2:
                body['wait'] = 50
                # Gone before the answer: whatever becomes of it, the place must come back. So it is bound.
                connection.send(request('POST', '/v1/acquire', json.dumps({**body, 'bind': 'connection'})))
                return
            reply = self.ask(connection, '/v1/acquire', body)
            if reply.status != 200:
                assert reply.status == 429, reply.text
                return
            with self.lock:
                self.holding += 1
                self.most = max(self.most, self.holding)
                self.fences.append(reply.json['fence'])
            assert self.ask(connection, '/v1/renew', {'permit': reply.json['permit']}).status == 200
            with self.lock:
                self.holding -= 1
            if not is_bound or draw.random() < 0.5:
                released = self.ask(connection, '/v1/release', {'permit': reply.json['permit']})
                assert released.json['released'], released.text

    def queue(self, server, draw):
        with server.connect() as connection:
            several = draw.randrange(1, 8)
            for _ in range(several):
                connection.send(request('POST', '/v1/check', json.dumps({
                    'attributes': {'tenant': draw.choice('ab'), 'path': '/q'}, 'wait': draw.choice([0.0005, 0.01, 50])})))
            if draw.random() < 0.3:
                return
            for _ in range(several):
                reply = connection.reply()
                assert reply.status in (200, 429), reply.text

    def client(self, server, seed):
        draw = random.Random(seed)
        try:
            for _ in range(ROUNDS):
                (self.work if draw.random() < 0.6 else self.queue)(server, draw)
        except Exception as problem:
            self.problems.append(f'client {seed}: {problem!r}')

    def reload(self, server, stop):
        count = 0
        while not stop.wait(0.05):
            count += 1
            with open(server.contract, 'w') as file:
                file.write(CONTRACT.replace('/else', f'/else{count}').replace('2000/s', f'{2000 + count % 2}/s'))
            assert server.ask('POST', '/v1/reload', unix='admin.sock').status == 200

    def test_nothing_is_lost_or_doubled(self):
        with Server(CONTRACT, args=('--workers', '2')) as server:
            stop = threading.Event()
            reloader = threading.Thread(target=self.reload, args=(server, stop))
            clients = [threading.Thread(target=self.client, args=(server, SEED + i)) for i in range(CLIENTS)]
            for thread in [reloader, *clients]:
                thread.start()
            for thread in clients:
                thread.join()
            stop.set()
            reloader.join()
            self.assertEqual(self.problems, [])
            self.assertLessEqual(self.most, AT_MOST)
            self.assertEqual(len(self.fences), len(set(self.fences)))
            wait_for(lambda: server.metric('weir_waiting') == 0)

            def left():
                reply = server.ask('POST', '/v1/check?status=200', json.dumps(
                    {'attributes': {'tenant': 'a', 'path': '/jobs'}, 'mode': 'peek'}))
                return reply.json['limits'][0]['remaining']
            wait_for(lambda: left() == AT_MOST)
            held = server.metric('weir_permits_total{event="acquired"}')
            back = [server.metric(f'weir_permits_total{{event="{event}"}}') for event in ('released', 'returned')]
            self.assertGreaterEqual(sum(back), held, 'one that nobody was left to get returns without having been acquired')
            self.assertGreater(server.waits('served'), 0)
            self.assertGreater(server.waits('left'), 0)


if __name__ == '__main__':
    unittest.main()
