# SPDX-License-Identifier: Apache-2.0
"""What `make install` leaves can be used by a stranger: by pkg-config and by CMake, from C and C++, shared and static.

Installs into a folder of its own and builds the programs of test/install/consumer against it. Also looks into the
shared libraries: they export weir_* words only, and libweir needs libc only.

LABELS: e2e
"""

import os
import re
import shutil
import subprocess
import tempfile
import unittest

BUILD = os.environ["WEIR_BUILD"]
SOURCE = os.environ["WEIR_SOURCE"]
CONSUMER = os.path.join(SOURCE, "test", "install", "consumer")


def run(*command, env=None):
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **(env or {})}, check=False)
    if done.returncode != 0:
        raise AssertionError(f"{' '.join(command)} ended with {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


class Install(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.root = tempfile.mkdtemp(prefix="weir-install-")
        cls.prefix = os.path.join(cls.root, "usr")
        run("cmake", "--install", BUILD, "--prefix", cls.prefix)
        cls.libraries = next(os.path.join(folder) for folder, _, files in os.walk(cls.prefix)
                             if "libweir.a" in files)
        cls.env = {"PKG_CONFIG_PATH": os.path.join(cls.libraries, "pkgconfig"), "LD_LIBRARY_PATH": cls.libraries}

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.root)

    def built_by_pkg_config(self, compiler, name, package, is_static):
        program = os.path.join(self.root, f"{name}-{'static' if is_static else 'shared'}-{os.path.basename(compiler)}")
        flags = run("pkg-config", "--cflags", "--libs", *(["--static"] if is_static else []), package,
                    env=self.env).split()
        if is_static:
            flags = [re.sub(r"^-l(weir.*)$", r"-l:lib\1.a", flag) for flag in flags]
        language = ["-x", "c++"] if compiler == "g++" else ["-x", "c", "-std=c11"]
        run(compiler, *language, "-Wall", "-Wextra", "-Werror", os.path.join(CONSUMER, name + ".c"), "-x", "none",
            "-o", program, *flags)
        return run(program, env={} if is_static else self.env)

    def test_pkg_config(self):
        for compiler in "gcc", "g++":
            for name, package in ("limit", "weir"), ("contract", "weir-contract"):
                for is_static in False, True:
                    with self.subTest(compiler=compiler, package=package, static=is_static):
                        self.assertEqual(self.built_by_pkg_config(compiler, name, package, is_static), "20 of 21\n")

    def test_cmake_package(self):
        for language in "C", "CXX":
            build = os.path.join(self.root, "cmake-" + language)
            run("cmake", "-S", CONSUMER, "-B", build, "-G", "Ninja", f"-DLANGUAGE={language}",
                f"-DCMAKE_PREFIX_PATH={self.prefix}")
            run("ninja", "-C", build)
            for program in "limit", "limit-static", "contract", "contract-static":
                with self.subTest(language=language, program=program):
                    self.assertEqual(run(os.path.join(build, program)), "20 of 21\n")

    def test_shared_libraries_export_the_public_words_only(self):
        for library in "libweir.so", "libweir-contract.so":
            symbols = [line.split()[-1] for line in
                       run("nm", "-D", "--defined-only", os.path.join(self.libraries, library)).splitlines()]
            self.assertTrue(any(symbol.startswith("weir_") for symbol in symbols), library)
            self.assertEqual([s for s in symbols if not s.startswith("weir_")], [], library)

    def test_static_libraries_define_the_public_words_only(self):
        for library in "libweir.a", "libweir-contract.a":
            text = run("nm", "-g", "--defined-only", os.path.join(self.libraries, library))
            symbols = [line.split()[-1] for line in text.splitlines() if len(line.split()) == 3]
            self.assertTrue(any(symbol.startswith("weir_") for symbol in symbols), library)
            self.assertEqual([s for s in symbols if not s.startswith("weir_")], [], library)

    def test_public_calls_are_all_exported(self):
        exported = set()
        for library in "libweir.so", "libweir-contract.so":
            exported |= {line.split()[-1] for line in
                         run("nm", "-D", "--defined-only", os.path.join(self.libraries, library)).splitlines()}
        for header in "weir.h", "weir_contract.h":
            with open(os.path.join(self.prefix, "include", header), encoding="utf-8") as file:
                text = re.sub(r"/\*.*?\*/", "", file.read(), flags=re.S)
            declared = set(re.findall(r"^WEIR_API[^;{(]*?\b(weir_\w+)\(", text, re.M))
            self.assertTrue(declared, header)
            self.assertEqual(sorted(declared - exported), [], header)

    def test_shared_libraries_need_what_they_say(self):
        def needed(library):
            text = run("readelf", "-d", os.path.join(self.libraries, library))
            names = re.findall(r"\(NEEDED\).*\[(.*?)\]", text)
            return sorted(name.split(".so")[0] for name in names if not name.startswith("ld-linux"))

        self.assertEqual(needed("libweir.so"), ["libc"])
        self.assertEqual(needed("libweir-contract.so"), ["libc", "libweir", "libyaml-0"])

    def test_program_runs_where_it_was_installed(self):
        self.assertIn("0.1.0", run(os.path.join(self.prefix, "bin", "weir"), "version"))

    def test_headers_are_all_there(self):
        self.assertEqual(sorted(os.listdir(os.path.join(self.prefix, "include"))),
                         sorted(f for f in os.listdir(os.path.join(SOURCE, "include"))))


if __name__ == "__main__":
    unittest.main()
