# SPDX-License-Identifier: Apache-2.0
"""grpcio at the gRPC door; see README.md."""
import json
import sys

import grpc

port, call, slow, unknown, *token = sys.argv[1:]
call, slow, unknown = (bytes.fromhex(text) for text in (call, slow, unknown))
metadata = [('authorization', 'Bearer ' + token[0])] if token else []
channel = grpc.insecure_channel('127.0.0.1:' + port)


def unary(path):
    return channel.unary_unary(path)  # bytes in, bytes out


def code_of(path, message, **how):
    try:
        unary(path)(message, **how)
        return 0
    except grpc.RpcError as error:
        return error.code().value[0]


should = '/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit'
health = '/grpc.health.v1.Health/'
watch = channel.unary_stream(health + 'Watch')(b'', timeout=20)
got = {
    'answers': [unary(should)(call, metadata=metadata, timeout=20).hex() for _ in range(3)],
    'health': unary(health + 'Check')(b'', timeout=20).hex(),
    'watched': next(watch).hex(),
    'unknown': code_of('/weir.v1/No', b'', timeout=20),
    'nobody': code_of(health + 'Check', unknown, timeout=20),
    'first': code_of(should, slow, metadata=metadata, timeout=20),
    'late': code_of(should, slow, metadata=[*metadata, ('weir-wait-ms', '50000')], timeout=0.3),
    'waited': unary(should)(slow, metadata=[*metadata, ('weir-wait-ms', '50000')], timeout=20).hex(),
}
watch.cancel()
futures = [unary(should).future(call, metadata=metadata, timeout=20) for _ in range(500)]
got['many'] = sum(1 for future in futures if future.result())
channel.close()
print(json.dumps(got))
