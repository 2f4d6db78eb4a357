"""What the kernel and drivers say of this machine: read, parsed, and turned into what is reported.

proc          files of /proc that describe the machine
cpu, memory   counters and tables -> what is reported
load          both, and the load averages
disks, network, pressure, host
              the rest of the machine
cgroup        the cgroups of a process, and the limits of the container that the agent runs in
gpu           all GPUs; gpu_nvidia and gpu_amd read them
"""
