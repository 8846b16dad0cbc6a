# SPDX-License-Identifier: Apache-2.0
"""certificate:subject at the auth doors, by real connections with certificates of clients. What it must be is what the command
`openssl x509` prints of the file."""
import shutil
import subprocess
import unittest

from door import request
from test_door_tls import Authority, Tls, openssl, reply

CONTRACT = """
weir: 1
identity:
  service: { from: "certificate:subject", only: authenticated }
limits:
  - { name: by-service, when: { service: present }, key: [service], rate: 2/1h, burst: 2 }
  - { name: one-of-them, when: { service: "SUBJECT" }, key: [service], rate: 5/1h, burst: 1 }
  - { name: nobody, when: { service: absent }, key: [], rate: 1/1h, burst: 1 }
"""

ODD = '/O=Acme, Inc.+OU=a=b/CN=Zo\u00eb "the" <first>'


class Subjects(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.authority = Authority()
        for name, subject in [('server', 'localhost'), ('billing', 'billing/O=Acme'), ('search', 'search/O=Acme')]:
            cls.authority.sign(name, subject)
        path = cls.authority.path
        openssl('req', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes', '-utf8', '-multivalue-rdn', '-subj', ODD,
                '-keyout', 'odd.key', '-out', 'odd.csr', cwd=cls.authority.dir)
        openssl('x509', '-req', '-in', 'odd.csr', '-CA', 'ca.pem', '-CAkey', 'ca.key', '-CAcreateserial', '-days', '2', '-out', 'odd.pem',
                cwd=cls.authority.dir)
        openssl('req', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes', '-subj', '/', '-keyout', 'none.key', '-out',
                'none.csr', cwd=cls.authority.dir)
        openssl('x509', '-req', '-in', 'none.csr', '-CA', 'ca.pem', '-CAkey', 'ca.key', '-CAcreateserial', '-days', '2', '-extfile', path('ext'),
                '-out', 'none.pem', cwd=cls.authority.dir)

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.authority.dir)

    def subject(self, name):
        out = subprocess.run(['openssl', 'x509', '-in', self.authority.path(name + '.pem'), '-noout', '-subject', '-nameopt', 'RFC2253'],
                             capture_output=True, text=True, check=True, timeout=60).stdout
        return out.removeprefix('subject=').rstrip('\n')

    def ask(self, server, client, headers=()):
        with server.open(client=client) as secured:
            secured.sendall(request('GET', '/v1/auth', headers=headers))
            return int(reply(secured).split(b' ')[1])

    def start(self, contract):
        server = Tls(self.authority, client_ca=True, resp=False, contract=contract)
        server.__enter__()
        self.addCleanup(server.__exit__)
        return server

    def test_each_subject_has_its_budget(self):
        server = self.start(CONTRACT.replace('SUBJECT', 'CN=nobody'))
        self.assertEqual([self.ask(server, 'billing') for _ in range(3)], [200, 200, 429])
        self.assertEqual(self.ask(server, 'search'), 200)
        self.assertEqual(self.ask(server, 'billing', [('Subject', self.subject('search')), ('X-SSL-Client-S-DN', 'x')]), 429,
                         'and nothing that is said changes it')

    def test_the_text_is_that_of_openssl(self):
        for client in ('billing', 'odd'):
            with self.subTest(client=client):
                subject = self.subject(client)
                pattern = '{ is: ' + "'" + subject.replace("'", "''") + "' }"
                server = self.start(CONTRACT.replace('"SUBJECT"', pattern))
                self.assertEqual([self.ask(server, client) for _ in range(2)], [200, 429], subject)
        self.assertRegex(self.subject('odd'), r'\\C3\\AB')

    def test_no_subject_is_no_attribute(self):
        server = self.start(CONTRACT.replace('SUBJECT', 'CN=nobody'))
        self.assertEqual(self.subject('none'), '')
        self.assertEqual([self.ask(server, 'none') for _ in range(2)], [200, 429])


if __name__ == '__main__':
    unittest.main()
