#!/bin/busybox sh
# The first program of a whole system's guest: it mounts the disk that is its root, and goes on as the system's own.
set -e
busybox=/bin/busybox
for module in /modules/*; do $busybox insmod "$module"; done
$busybox mount -t devtmpfs dev /dev
until [ -e /dev/vda ]; do $busybox sleep 0.05; done
$busybox mount -t ext4 /dev/vda /root
$busybox mount --move /dev /root/dev
exec $busybox switch_root /root /sbin/init
