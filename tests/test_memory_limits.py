"""The default memory budget heeds the limits on the process, read from trees as Linux has them."""

import math
import os
import subprocess
import sys

import pytest

from ling.solvers.machine import parse_memory_budget
from ling.solvers.memory_limits import memory_limit

GB = 10**9
UNLIMITED_V1 = 9223372036854771712  # what version 1 says instead of "max"


class Tree:
    """A folder with what /proc and /sys tell of a process."""

    def __init__(self, root):
        self.root = root

    def write(self, path, content):
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(str(content))
        return file

    def process(self, cgroup, mounts):
        self.write("proc/self/cgroup", cgroup)
        self.write("proc/self/mountinfo", "22 1 0:5 / /dev rw - devtmpfs udev rw\n" + mounts)

    @property
    def limit(self):
        return memory_limit(self.root)

    @property
    def budget(self):
        return parse_memory_budget(None, root=self.root)


V2 = "29 23 0:26 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n"
V1 = (
    "33 32 0:30 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct\n"
    "34 32 0:31 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
)
UNIFIED = "41 32 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n"
SLICE = "sys/fs/cgroup/system.slice"
JOB = f"{SLICE}/job-7.scope"


@pytest.fixture
def tree(tmp_path):
    return Tree(tmp_path)


@pytest.fixture
def v2(tree):
    tree.process("0::/system.slice/job-7.scope\n", V2)
    return tree


TOTAL = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def test_without_control_groups_a_quarter_of_the_machine_is_the_budget(tree):
    assert tree.limit == math.inf
    assert tree.budget == TOTAL / 4


def test_version_2(v2):
    v2.write(f"{JOB}/memory.max", "4000000000\n")
    assert v2.limit == 4 * GB
    assert v2.budget == min(4 * GB, TOTAL) / 4


def test_the_budget_does_not_depend_on_the_moment(v2):
    v2.write(f"{JOB}/memory.max", GB)
    for used in (0, GB // 2, 2 * GB):
        v2.write(f"{JOB}/memory.current", used)
        assert v2.budget == GB / 4


def test_a_limit_that_throttles_counts_as_one(v2):
    v2.write(f"{JOB}/memory.max", "max\n")
    v2.write(f"{JOB}/memory.high", "2000000000\n")
    assert v2.limit == 2 * GB


@pytest.mark.parametrize("outer", [SLICE, "sys/fs/cgroup"])
@pytest.mark.parametrize("tighter", [1, 3])
def test_the_smallest_limit_on_the_way_up_counts(v2, outer, tighter):
    v2.write(f"{JOB}/memory.max", 2 * GB)
    v2.write(f"{outer}/memory.max", tighter * GB)
    assert v2.limit == min(2, tighter) * GB


def test_groups_beside_the_own_one_do_not_count(v2):
    v2.write(f"{SLICE}/other.scope/memory.max", GB)
    assert v2.limit == math.inf


@pytest.mark.parametrize("content", ["max", "", "nonsense", "-1", "1e3 5"])
def test_what_is_not_a_number_is_no_limit(v2, content):
    v2.write(f"{JOB}/memory.max", content)
    assert v2.limit == math.inf


def test_version_1(tree):
    tree.process("5:cpu,cpuacct:/\n4:memory:/slurm/uid_1/job_7\n1:name=systemd:/\n", V1)
    memory = "sys/fs/cgroup/memory"
    tree.write(f"{memory}/memory.limit_in_bytes", UNLIMITED_V1)
    tree.write(f"{memory}/slurm/uid_1/memory.limit_in_bytes", 5 * GB)
    job = f"{memory}/slurm/uid_1/job_7"
    tree.write(f"{job}/memory.limit_in_bytes", 6 * GB)
    assert tree.limit == 5 * GB
    assert tree.budget == min(5 * GB, TOTAL) / 4


def test_version_1_without_limit(tree):
    tree.process("4:memory:/\n", V1)
    tree.write("sys/fs/cgroup/memory/memory.limit_in_bytes", UNLIMITED_V1)
    assert tree.budget == TOTAL / 4


@pytest.mark.parametrize("mounts", [V1 + UNIFIED, UNIFIED + V1])
def test_both_versions_at_once(tree, mounts):
    tree.process("4:memory:/job\n0::/job\n", mounts)
    tree.write("sys/fs/cgroup/memory/job/memory.limit_in_bytes", 3 * GB)
    assert tree.limit == 3 * GB
    tree.write("sys/fs/cgroup/unified/job/memory.max", 2 * GB)
    assert tree.limit == 2 * GB


@pytest.mark.parametrize(
    ("cgroup", "mounted"),
    [
        ("/docker/abc", "/docker/abc"),  # its own group alone is mounted
        ("/docker/abc", "/"),  # the group's path is one of the host's
        ("/", "/"),  # a namespace of its own
        ("/", "/.."),
        ("/../elsewhere", "/"),  # a group that cannot be seen
    ],
)
def test_containers(tree, cgroup, mounted):
    tree.process(f"4:memory:{cgroup}\n", V1.replace("0:31 /", f"0:31 {mounted}"))
    tree.write("sys/fs/cgroup/memory/memory.limit_in_bytes", 3 * GB)
    tree.write("sys/fs/cgroup/elsewhere/memory.limit_in_bytes", GB)
    assert tree.limit == 3 * GB


def test_a_mount_point_with_a_blank(tree):
    tree.process("0::/job\n", V2.replace("/sys/fs/cgroup", "/sys/control\\040groups"))
    tree.write("sys/control groups/job/memory.max", GB)
    assert tree.limit == GB


@pytest.mark.parametrize("file", ["proc/self/cgroup", "proc/self/mountinfo"])
@pytest.mark.parametrize("content", ["", "\n\n", "0", "nonsense - -", b"\xff\xfe"])
def test_lines_that_cannot_be_understood_are_left_out(v2, file, content):
    v2.write(f"{JOB}/memory.max", GB)
    (v2.root / file).write_bytes(content if isinstance(content, bytes) else content.encode())
    assert v2.limit == math.inf


def test_files_that_cannot_be_read_set_no_limit(v2):
    (v2.root / JOB / "memory.max").mkdir(parents=True)
    v2.write(f"{SLICE}/memory.max", GB)
    assert v2.limit == GB


@pytest.mark.processes
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
@pytest.mark.parametrize("name", ["RLIMIT_AS", "RLIMIT_DATA"])
def test_resource_limits(name):
    code = (
        "import resource\n"
        "from ling.solvers.machine import parse_memory_budget\n"
        f"resource.setrlimit(resource.{name}, (3 * 10**9, 3 * 10**9))\n"
        "print(parse_memory_budget(None))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=os.environ
    )
    assert float(done.stdout) == min(3 * GB, TOTAL) / 4
