# SPDX-License-Identifier: Apache-2.0
"""The Debian packages: what lies where and whose it is, units that systemd takes, and the program in them answers a request.

Built here from this build by CPack (`make package` builds with Debian's paths and flags, and asks lintian), unpacked without
being installed.

LABELS: e2e
"""
import glob
import os
import re
import shutil
import socket
import subprocess
import tempfile
import time
import unittest

BUILD = os.path.abspath(os.environ['WEIR_BUILD'])
SOURCE = os.path.abspath(os.environ['WEIR_SOURCE'])


def run(*command, **more):
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300, **more)
    if done.returncode != 0:
        raise AssertionError(f"{' '.join(command)} ended with {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def unit(path):
    """[(key, value)] of a unit file."""
    with open(path) as file:
        return [tuple(line.strip().split('=', 1)) for line in file if '=' in line and not line.startswith('#')]


class Package(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.dir = tempfile.mkdtemp(prefix='weir-package-')
        run('cpack', '--config', os.path.join(BUILD, 'CPackConfig.cmake'), '-G', 'DEB', '-B', cls.dir, cwd=cls.dir)
        cls.debs = {os.path.basename(path).split('_')[0]: path for path in glob.glob(cls.dir + '/*.deb')}
        cls.root = os.path.join(cls.dir, 'root')
        cls.control = os.path.join(cls.dir, 'control')
        for deb in cls.debs.values():
            run('dpkg', '-x', deb, cls.root)
        run('dpkg', '-e', cls.debs['weir'], cls.control)
        cls.units = os.path.join(cls.root, 'usr/lib/systemd/system')
        cls.service = unit(os.path.join(cls.units, 'weir.service'))

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.dir)

    def of_service(self, key):
        return [value for name, value in self.service if name == key]

    def field(self, package, name):
        return run('dpkg', '-f', self.debs[package], name).strip()

    def test_names_and_what_they_need(self):
        self.assertEqual(set(self.debs), {'weir', 'libweir0', 'libweir-dev'})
        for package in self.debs:
            self.assertRegex(self.field(package, 'Version'), r'^\d+\.\d+\.\d+-1$')
        needs = self.field('weir', 'Depends')
        for library in ('libc6', 'libssl3', 'libuv1', 'libyaml-0-2', 'adduser'):
            self.assertIn(library, needs)
        self.assertIn('libyaml-0-2', self.field('libweir0', 'Depends'))
        self.assertIn(f"libweir0 (= {self.field('libweir0', 'Version')})", self.field('libweir-dev', 'Depends'))

    def test_programs_that_are_linked_with_the_libraries_will_need_them(self):
        run('dpkg', '-e', self.debs['libweir0'], self.control + '-library')
        with open(self.control + '-library/shlibs') as file:
            self.assertRegex(file.read(), r'(?m)^libweir 0 libweir0 \(>= \d')
        with open(self.control + '-library/triggers') as file:
            self.assertEqual(file.read(), 'activate-noawait ldconfig\n')

    def test_owners_and_modes(self):
        for package, deb in self.debs.items():
            for line in run('dpkg', '-c', deb).splitlines():
                mode, owner, _, _, _, path = line.split(None, 5)
                with self.subTest(package=package, path=path):
                    self.assertEqual(owner, 'root/root')
                    kind = 'd' if path.endswith('/') else mode[0]
                    wanted = {'d': 'drwxr-xr-x', 'l': 'lrwxrwxrwx', '-': '-rwxr-xr-x' if '/bin/' in path else '-rw-r--r--'}[kind]
                    self.assertEqual(mode, wanted)

    def test_what_lies_where(self):
        for path in ('usr/bin/weir', 'etc/weir/weir.yaml', 'etc/default/weir', 'usr/lib/sysusers.d/weir.conf', 'usr/lib/systemd/system/weir.service',
                     'usr/share/doc/weir/copyright', 'usr/share/doc/weir/operations.md', 'usr/share/man/man1/weir-serve.1*',
                     'usr/share/man/man5/weir-contract.5*', 'usr/include/weir.h', 'usr/lib/**/libweir.a', 'usr/lib/**/libweir.so.0',
                     'usr/lib/**/pkgconfig/weir.pc'):
            self.assertEqual(len(glob.glob(os.path.join(self.root, path), recursive=True)), 1, path)
        self.assertEqual(os.listdir(os.path.join(self.root, 'usr')).count('local'), 0)
        [pc] = glob.glob(os.path.join(self.root, 'usr/lib/**/weir.pc'), recursive=True)
        with open(pc) as file:
            self.assertIn('prefix=/usr\n', file.read())
        with open(os.path.join(self.control, 'conffiles')) as file:
            conffiles = file.read().split()
        in_etc = [os.path.join(folder, name)[len(self.root):] for folder, _, names in os.walk(self.root + '/etc') for name in names]
        self.assertEqual(sorted(conffiles), sorted(in_etc))

    def test_paths_of_the_units_exist(self):
        [start] = self.of_service('ExecStart')
        program, contract = start.split()[0], start.split()[-1]
        self.assertTrue(os.access(self.root + program, os.X_OK))
        self.assertTrue(os.path.isfile(self.root + contract))
        [environment] = self.of_service('EnvironmentFile')
        self.assertTrue(os.path.isfile(self.root + environment.lstrip('-')))
        [user] = self.of_service('User')
        with open(self.control + '/postinst') as file:
            self.assertRegex(file.read(), rf'adduser --system .* {user}\n')
        with open(self.root + '/usr/lib/sysusers.d/weir.conf') as file:
            self.assertIn(f'u {user} ', file.read())
        doors = []
        for path in glob.glob(self.units + '/*.socket'):
            words = dict(unit(path))
            doors.append(words['FileDescriptorName'])
            self.assertEqual(words['Service'], 'weir.service')
            self.assertRegex(words['ListenStream'], r'^127\.0\.0\.1:\d+$', 'loopback, unless somebody says otherwise')
            self.assertTrue(os.path.basename(path) == f'weir-{doors[-1]}.socket')
        self.assertEqual(sorted(doors), ['grpc', 'http', 'resp'])

    def test_systemd_takes_the_units(self):
        """Paths of the packages are put in front, since nothing is installed."""
        folder = os.path.join(self.dir, 'units')
        shutil.copytree(self.units, folder)
        with open(folder + '/weir.service') as file:
            text = file.read().replace('/usr/bin/weir serve', self.root + '/usr/bin/weir serve').replace('man:weir', 'man:true')
        with open(folder + '/weir.service', 'w') as file:
            file.write(text)
        done = subprocess.run(['systemd-analyze', 'verify', '--man=no', *sorted(glob.glob(folder + '/weir*'))], capture_output=True, text=True, check=False,
                              timeout=120, env={**os.environ, 'SYSTEMD_UNIT_PATH': folder + ':'})
        said = [line for line in (done.stdout + done.stderr).splitlines() if 'weir' in line]
        self.assertEqual((done.returncode, said), (0, []))
        done = subprocess.run(['systemd-analyze', 'security', '--offline=true', '--threshold=20', '--no-pager', folder + '/weir.service'],
                              capture_output=True, text=True, check=False, timeout=120)
        self.assertEqual(done.returncode, 0, done.stdout[-300:] + done.stderr)  # 2.0 of 10 or better

    def start(self, *before):
        """The packaged program on the packaged contract. (process, port)"""
        log = open(os.path.join(self.dir, 'log'), 'wb')
        process = subprocess.Popen([*before, self.root + '/usr/bin/weir', 'serve', self.root + '/etc/weir/weir.yaml', '--http', '127.0.0.1:0',
                                    '--admin', 'unix:' + self.dir + '/admin.sock'], stderr=log, env={'PATH': os.environ['PATH']})
        log.close()
        for _ in range(3000):
            with open(os.path.join(self.dir, 'log')) as file:
                said = file.read()
            if 'event=serving' in said:
                return process, int(re.search(r'^listening http .*:(\d+)$', said, re.M)[1])
            if process.poll() is not None:
                break
            time.sleep(0.01)
        raise AssertionError('it did not start: ' + said)

    def ask(self, port, method, path, body=''):
        with socket.create_connection(('127.0.0.1', port), 30) as connection:
            connection.sendall(f'{method} {path} HTTP/1.0\r\nContent-Length: {len(body)}\r\n\r\n{body}'.encode())
            return b''.join(iter(lambda: connection.recv(65536), b'')).decode()

    def test_it_answers_a_request(self):
        run(self.root + '/usr/bin/weir', 'lint', self.root + '/etc/weir/weir.yaml')
        process, port = self.start()
        try:
            self.assertIn(' 200 OK', self.ask(port, 'POST', '/v1/check', '{"attributes":{"tenant":"acme"}}'))
            self.assertIn('"remaining":48', self.ask(port, 'POST', '/v1/check', '{"attributes":{"tenant":"acme"}}'))
        finally:
            process.terminate()
            self.assertEqual(process.wait(30), 0)

    def test_the_filter_of_system_calls_lets_it_work(self):
        """What it calls while it starts, serves, reloads and drains, against SystemCallFilter= as systemd-analyze spells the sets out."""
        def members(name, seen=()):
            names = set()
            for line in run('systemd-analyze', 'syscall-filter', name).splitlines()[1:]:
                word = line.strip()
                if word and not word.startswith('#'):
                    names |= members(word) if word.startswith('@') else {word}
            return names
        allowed = set()
        for value in self.of_service('SystemCallFilter'):
            names = set().union(*(members(name) for name in value.lstrip('~').split()))
            allowed = allowed - names if value.startswith('~') else allowed | names
        trace = os.path.join(self.dir, 'trace')
        process, port = self.start('strace', '-f', '-qq', '-o', trace)
        self.ask(port, 'POST', '/v1/check', '{"attributes":{"tenant":"acme"}}')
        self.ask(port, 'GET', '/metrics')
        with open(f'/proc/{process.pid}/task/{process.pid}/children') as file:
            child = int(file.read().split()[0])
        os.kill(child, 1)
        for _ in range(3000):
            with open(os.path.join(self.dir, 'log')) as file:
                if 'event=reloaded' in file.read():
                    break
            time.sleep(0.01)
        os.kill(child, 15)
        self.assertEqual(process.wait(60), 0)
        with open(trace) as file:
            called = set(re.findall(r'^\d+ +(?:<\.\.\. )?([a-z0-9_]+)(?:\(| resumed)', file.read(), re.M))
        self.assertIn('epoll_ctl', called)
        # What fails instead of killing (SystemCallErrorNumber=) and is done without: the unit sets the limit of descriptors.
        self.assertEqual(called - allowed - {'execve'}, set())

    def test_postinst_surprises_nobody(self):
        """With stand-ins for what it calls: it makes the user where there is none, and starts and enables nothing."""
        stubs = os.path.join(self.dir, 'stubs')
        os.mkdir(stubs)
        said = os.path.join(self.dir, 'said')
        for name, status in (('adduser', 0), ('systemctl', 0), ('deb-systemd-invoke', 0), ('getent', 2)):
            with open(os.path.join(stubs, name), 'w') as file:
                file.write(f'#!/bin/sh\necho "{name} $*" >>{said}\nexit {status}\n')
            os.chmod(os.path.join(stubs, name), 0o755)
        env = {'PATH': stubs + ':' + os.environ['PATH']}
        for script, arguments in (('postinst', ['configure', '']), ('postinst', ['configure', '0.0.1-1']), ('prerm', ['remove']), ('prerm', ['upgrade', '9']),
                                  ('postrm', ['remove'])):
            run('sh', '-eu', os.path.join(self.control, script), *arguments, env=env)
        with open(said) as file:
            lines = file.read().splitlines()
        self.assertEqual(len([line for line in lines if line.startswith('adduser --system ')]), 2)
        self.assertEqual([line for line in lines if re.search(r'\b(start|restart|enable|preset)\b', line.replace('try-restart', ''))], [])


if __name__ == '__main__':
    unittest.main()
