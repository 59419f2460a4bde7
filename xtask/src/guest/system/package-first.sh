#!/bin/sh
# Mounts the disk with the packages, and runs the trial on it.
set -eu
mount -o ro /dev/disk/by-id/virtio-disk /opt/trial
exec sh /opt/trial/package.sh
