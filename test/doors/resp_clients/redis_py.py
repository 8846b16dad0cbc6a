# SPDX-License-Identifier: Apache-2.0
"""redis-py at the Redis door; see README.md."""
import json
import sys

import redis


def error_of(call, *words):
    try:
        call(*words)
    except redis.RedisError as error:
        return str(error)
    raise SystemExit('no error came')


def main():
    client = redis.Redis(port=int(sys.argv[1]), password=sys.argv[2] if len(sys.argv) > 2 else None, decode_responses=True)
    try:
        ping = client.ping()
    except redis.RedisError as error:
        print(json.dumps({'failed': str(error)}))
        return
    ask = client.execute_command
    pipe = client.pipeline(transaction=False)
    pipe.execute_command('PING')
    pipe.execute_command('CL.THROTTLE', 'py-pipeline', 15, 30, 60)
    pipe.execute_command('WEIR.CHECK', 'ATTR', 'tenant', 'py-pipeline')
    info = ask('CLIENT INFO')
    print(json.dumps({
        'ping': 'PONG' if ping is True else ping,
        'resp': int(info['resp'] if isinstance(info, dict) else info.split('resp=')[1].split()[0]),
        'allowed': ask('WEIR.CHECK', 'COST', 20, 'ATTR', 'tenant', 'py'),
        'denied': ask('WEIR.CHECK', 'ATTR', 'tenant', 'py'),
        'peeked': ask('WEIR.PEEK', 'ATTR', 'tenant', 'py-fresh'),
        'throttled': [ask('CL.THROTTLE', 'py', 0, 1, 1000), ask('CL.THROTTLE', 'py', 0, 1, 1000)],
        'pipeline': pipe.execute(),
        'error': error_of(ask, 'NOSUCH', 'word'),
        'refused': error_of(ask, 'WEIR.CHECK', 'COST', 'many', 'ATTR', 'tenant', 'py'),
    }))


main()
