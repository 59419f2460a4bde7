#!/bin/busybox sh
# The guest's first program: it mounts the host's root, with what is changed there in memory, makes that its
# root, and goes on as this command, which stands there.
set -e
busybox=/bin/busybox
for module in /modules/*; do $busybox insmod "$module"; done
$busybox ifconfig lo up
$busybox mount -t 9p -o ro,trans=virtio,version=9p2000.L,msize=512000,cache=loose host /host
$busybox mount -t tmpfs changes /changes
$busybox mkdir /changes/upper /changes/work
$busybox mount -t overlay -o lowerdir=/host,upperdir=/changes/upper,workdir=/changes/work root /root
exec $busybox switch_root /root "$($busybox cat /program)" guest-init
