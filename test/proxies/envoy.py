# SPDX-License-Identifier: Apache-2.0
"""Envoy with examples/envoy/rls.yaml, for two test files: what every proxy shows, and what is Envoy's alone."""
import http.client
import os
import re
import shutil

from proxies import Server, Stack, program

ACTIONS = """
              - actions:
                - remote_address: {}
                - request_headers: { header_name: ":path", descriptor_key: path }
                - request_headers: { header_name: ":method", descriptor_key: method }
"""


class DropIn(Server):
    """`weir serve --ratelimit-config FOLDER`, whose only file is this text."""

    def popen_path(self):
        folder = os.path.join(self.dir, 'config')
        os.mkdir(folder)
        shutil.copy(self.contract, os.path.join(folder, 'site.yaml'))
        return '--ratelimit-config=' + folder


class EnvoyStack(Stack):
    def __init__(self, *args, grpc=None, weir_args=(), server=Server, **more):
        self.server = server
        self.grpc, self.more_args = grpc, weir_args
        super().__init__(*args, **more)

    def weir_args(self):
        return ['--grpc', self.grpc or f'127.0.0.1:{self.port_of["grpc"]}', *self.more_args]

    def admin(self, path):
        client = http.client.HTTPConnection('127.0.0.1', self.port_of['envoy'], timeout=30)
        try:
            client.request('GET', path)
            return client.getresponse().read().decode()
        finally:
            client.close()

    def health(self):
        """What Envoy thinks of weir: 'healthy', or flags."""
        return re.search(rf'^weir::127.0.0.1:{self.port_of["grpc"]}::health_flags::(.*)$', self.admin('/clusters'), re.M).group(1)

    def counter(self, name):
        return int(re.search(rf'^cluster\.application\.ratelimit\.{name}: (\d+)$', self.admin('/stats'), re.M).group(1))


def stack(policy, actions=None, edits=(), **more):
    edit = [] if policy == 'closed' else [('failure_mode_deny: true\n', 'failure_mode_deny: false\n')]
    if actions:
        edit.append((ACTIONS, '\n' + actions))
    return EnvoyStack('envoy', [program('envoy'), '-c', 'rls.yaml', '--concurrency', '1', '--disable-hot-restart'], edit=[*edit, *edits],
                      **more)
