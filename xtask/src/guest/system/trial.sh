#!/bin/sh
# The parts of the trial, one a boot. What a line begins with `trial:` tells the host.
set -eu

fail() { echo "failed: $*"; exit 1; }

# What went wrong, for the host to show.
ended() {
    status=$?
    [ "$status" = 0 ] && return
    systemctl --no-pager --failed || true
    journalctl --no-pager -b -u 'overdrive*' -u 'mnt-*' | tail -n 60 || true
    echo "trial: failed"
    systemctl poweroff --force --force
}
trap ended EXIT

# A directory's files and their sums, which lie beside them.
write() { # DIRECTORY NAME MIB
    head -c "$3M" /dev/urandom > "$1/$2"
    (cd "$1" && sha256sum "$2" > "$2.sum")
    sync -f "$1"
}
check() { echo 3 > /proc/sys/vm/drop_caches; (cd "$1" && sha256sum --quiet --check ./*.sum) || fail "$1: not what was written"; }

# What fstab says is mounted by the boot itself; nothing had to be tried again.
mounted() {
    for one in disk parted image; do
        for _ in $(seq 3000); do
            findmnt -n "/mnt/$one" > /dev/null && break
            sleep 0.2
        done
        findmnt -n "/mnt/$one" || fail "/mnt/$one is not mounted"
        [ "$(systemctl show -P NRestarts "overdrive-device@$one")" = 0 ] || fail "$one had to be started twice"
    done
}

daemon() { systemctl show --property MainPID --value "overdrive-device@$1"; }

is_volume() { # DEVICE VOLUME
    [ "$(readlink -f "$1")" = "$(readlink -f "/dev/overdrive/$2")" ] || fail "$1 is not the volume $2: $(readlink -f "$1")"
}

faces() {
    is_volume "$(findmnt -no SOURCE /mnt/disk)" disk
    is_volume /dev/disk/by-uuid/0d0d0d0d-0001-4000-8000-000000000001 disk
    is_volume /dev/disk/by-label/overdriven disk
    is_volume "$(findmnt -no SOURCE /mnt/parted)" parted-part1
    is_volume /dev/disk/by-partuuid/0d0d0d0d-0002-4000-8000-000000000002 parted-part1
    for backing in virtio-disk virtio-parted virtio-parted-part1; do
        backing=/dev/disk/by-id/$backing
        udevadm info --query=property "$backing" | grep -qx SYSTEMD_READY=0 || fail "$backing is not hidden"
        udevadm info --query=property "$backing" | grep -qx UDISKS_IGNORE=1 || fail "$backing is shown to udisks"
        mount "$backing" /media 2> /dev/null && fail "$backing was mounted"
    done
    true
}

# Boot 1: what fstab says is mounted; a killed daemon, a restart, a stop.
first() {
    mounted
    faces
    for one in disk parted image; do write "/mnt/$one" first 8; done
    # Killed while it is written to.
    write /mnt/disk killed 24 &
    before=$(daemon disk)
    sleep 1
    kill -KILL "$before"
    wait $!
    check /mnt/disk
    [ "$(daemon disk)" != "$before" ] || fail "the daemon was not started again"
    is_volume "$(findmnt -no SOURCE /mnt/disk)" disk
    faces
    # An upgrade by the service manager, under a mount.
    write /mnt/image restarted 24 &
    systemctl restart overdrive-device@image
    wait $!
    check /mnt/image
    # Killed while nothing happens: what is mounted stays so.
    before=$(daemon parted)
    kill -KILL "$before"
    until [ "$(systemctl show -P ActiveState overdrive-device@parted)" = active ] &&
        [ "$(daemon parted)" != "$before" ]; do sleep 0.2; done
    findmnt -n /mnt/parted || fail "not mounted any more"
    check /mnt/parted
    cat "/proc/$(daemon disk)/oom_score_adj" | grep -qx -- -1000 || fail "its OOM score"
    # A stop shows the backing again; a start brings the volume back.
    umount /mnt/disk
    systemctl stop overdrive-device@disk
    udevadm settle
    [ ! -e /dev/overdrive/disk ] || fail "a device after a stop"
    [ "$(readlink -f /dev/disk/by-uuid/0d0d0d0d-0001-4000-8000-000000000001)" = /dev/vdb ] || fail "no backing after a stop"
    fsck.ext4 -fn /dev/vdb
    systemctl start overdrive-device@disk mnt-disk.mount
    check /mnt/disk
    faces
    # Memory is short while a file system on a volume is dirty: it is written out, and no daemon is what is ended.
    before=$(daemon image)
    (echo 1000 > /proc/self/oom_score_adj; exec tail /dev/zero) > /dev/null 2>&1 &
    hog=$!
    write /mnt/image pressed 128
    wait "$hog" && fail "nothing has ended what takes all memory"
    check /mnt/image
    [ "$(daemon image)" = "$before" ] || fail "its daemon was ended, too"
}

# After an orderly stop of the machine: no journal has to be replayed.
second() {
    mounted
    dmesg | grep -E 'recovery (complete|required)|Starting recovery' && fail "what was unmounted needs recovery"
    faces
    for one in disk parted image; do check "/mnt/$one"; write "/mnt/$one" second 8; done
}

# After a reboot; the power is cut at its end, in the middle of a write.
third() {
    mounted
    dmesg | grep -E 'recovery (complete|required)|Starting recovery' && fail "what was unmounted needs recovery"
    for one in disk parted image; do
        check "/mnt/$one"
        write "/mnt/$one" third 8
        (while :; do head -c 4M /dev/urandom > "/mnt/$one/unfinished"; done) &
    done
    sleep 3
    echo "trial: cut"
    sleep 1000
}

# After the power cut: what was synced is there, and the file systems are whole.
fourth() {
    mounted
    faces
    for one in disk parted image; do check "/mnt/$one"; done
    umount /mnt/disk /mnt/parted /mnt/image
    systemctl stop overdrive-device@disk overdrive-device@parted overdrive-device@image
    fsck.ext4 -fn /dev/vdb
    fsck.ext4 -fn /dev/vdc1
    xfs_repair -n /srv/image.img
}

# The root of this boot is a volume on the host, whose daemon is killed each time that it is asked for.
served() {
    mkdir -p /var/lib/written
    for round in one two three; do
        (sleep 1; echo "trial: kill") &
        write /var/lib/written $round 32
        wait
        check /var/lib/written
    done
}

# LUKS, on a volume and below one.
scratch=/dev/disk/by-id/virtio-scratch
# A part before this one may have left something.
clean() { wipefs -q -a $scratch; }
attach() { overdrive attach "$1" --name scratch --memory 64M; }
refused() { # WORDS
    overdrive detach scratch 2> /tmp/said && fail "detached, though $1"
    grep -q "$1" /tmp/said || fail "$(cat /tmp/said)"
}
format() { mkfs.ext4 -q "$1" && mount "$1" /media && write /media file 8; }

luks() {
    printf secret > /tmp/key
    # Above: what the volume holds is what the disk holds afterwards.
    attach $scratch
    cryptsetup luksFormat -q --pbkdf pbkdf2 --pbkdf-force-iterations 1000 /dev/overdrive/scratch /tmp/key
    cryptsetup open --key-file /tmp/key /dev/overdrive/scratch secret
    format /dev/mapper/secret
    refused "is used by dm-"
    umount /media
    cryptsetup close secret
    overdrive detach scratch
    # Below.
    cryptsetup open --key-file /tmp/key $scratch secret
    attach /dev/mapper/secret
    mount /dev/overdrive/scratch /media
    check /media
    write /media below 8
    umount /media
    overdrive detach scratch
    mount /dev/mapper/secret /media
    check /media
    umount /media
    cryptsetup close secret
}

# LVM, on a volume and below one.
lvm() {
    command lvm version > /dev/null || fail "no LVM in this system"
    clean
    # Above, with the filter that the documents name.
    echo 'devices { global_filter = [ "r|^/dev/vdd$|" ] }' > /etc/lvm/lvmlocal.conf
    attach $scratch
    pvcreate -q /dev/overdrive/scratch
    vgcreate -q group /dev/overdrive/scratch
    lvcreate -q -y -L 128M -n logical group
    format /dev/group/logical
    refused "is used by dm-"
    umount /media
    refused "is used by dm-"
    # With both faces in sight, LVM takes the volume.
    pvs --noheadings -o pv_name | tr -d ' ' > /tmp/said
    [ "$(readlink -f "$(cat /tmp/said)")" = "$(readlink -f /dev/overdrive/scratch)" ] || fail "LVM sees $(cat /tmp/said)"
    vgchange -q -an group
    overdrive detach scratch
    rm /etc/lvm/lvmlocal.conf
    # What it held is what the disk holds.
    udevadm settle
    vgchange -q -ay group
    mount /dev/group/logical /media
    check /media
    umount /media
    # Below: a snapshot of what is served is whole while the volume is frozen.
    attach /dev/group/logical
    mount /dev/overdrive/scratch /media
    check /media
    write /media below 8
    fsfreeze -f /media
    overdrive volume freeze scratch
    lvcreate -q -y -s -L 64M -n copied group/logical
    overdrive volume resume scratch
    fsfreeze -u /media
    write /media later 8
    umount /media
    overdrive detach scratch
    mount -o ro /dev/group/copied /media
    [ ! -e /media/later ] || fail "the snapshot has what came later"
    check /media
    umount /media
    mount /dev/group/logical /media
    check /media
    umount /media
    vgremove -q -y group
    pvremove -q $scratch
}

dirty() { overdrive volume list --json | sed 's/.*"dirty_bytes":\([0-9]*\).*/\1/'; }
soil() { dd if=/dev/urandom of=/dev/overdrive/scratch bs=64k count=64 oflag=direct status=none; [ "$(dirty)" -gt 0 ] || fail "nothing is dirty"; }
slept() { journalctl --no-pager -b -k | grep -c 'PM: suspend entry\|PM: hibernation: hibernation entry' || true; }

# Suspend and hibernation, up to where the kernel would turn devices off.
sleep_of_the_machine() {
    mounted > /dev/null
    umount /mnt/disk /mnt/parted /mnt/image
    systemctl stop overdrive-device@disk overdrive-device@parted overdrive-device@image
    mkswap -f /dev/vdc > /dev/null && swapon /dev/vdc
    echo freezer > /sys/power/pm_test
    clean
    overdrive attach $scratch --name scratch --memory 64M --write back-now --dirty-age 600s --guard off
    soil
    systemctl start systemd-suspend.service
    [ "$(slept)" = 1 ] || fail "the machine was not suspended"
    [ "$(dirty)" = 0 ] || fail "suspended with $(dirty) dirty bytes"
    soil
    systemctl start systemd-hibernate.service
    [ "$(slept)" = 2 ] || fail "the machine did not hibernate"
    [ "$(dirty)" = 0 ] || fail "hibernated with $(dirty) dirty bytes"
    # What cannot be written out keeps the machine awake, but only from hibernation.
    soil
    pid=$(overdrive volume list --json | sed 's/.*"pid":\([0-9]*\).*/\1/')
    kill -STOP "$pid"
    systemctl start systemd-hibernate.service && fail "hibernated while dirty"
    [ "$(slept)" = 2 ] || fail "hibernated while dirty"
    systemctl start systemd-suspend.service
    [ "$(slept)" = 3 ] || fail "the machine was not suspended"
    kill -CONT "$pid"
    overdrive detach scratch
}

confined_to() { # VOLUME WORDS
    overdrive volume stats "$1" | grep -x "confined  $2" || fail "$1 is not confined to '$2'"
}

# Daemons have given up what they do not need, under the sandbox of both units.
confined() {
    mounted
    for one in disk parted image; do confined_to "$one" 'system calls, files, capabilities'; done
    printf '[volume.exported]\nbacking = "%s"\nmemory = "8M"\n' "$scratch" > /etc/overdrive/exported.toml
    unit=overdrive@exported
    main() { systemctl show --property MainPID --value $unit; }
    again() { # FORMER PROCESS
        until [ "$(systemctl show -P ActiveState $unit)" = active ] && [ "$(main)" != "$1" ]; do sleep 0.2; done
    }
    systemctl start $unit
    confined_to exported 'system calls, files, capabilities'
    before=$(main)
    overdrive upgrade exported
    [ "$(main)" = "$before" ] || fail "the upgrade has ended the daemon"
    confined_to exported 'system calls, files, capabilities'
    kill -KILL "$before"
    again "$before"
    confined_to exported 'system calls, files, capabilities'
    before=$(main)
    systemctl restart $unit
    again "$before"
    confined_to exported 'system calls, files, capabilities'
    overdrive volume flush exported
    systemctl stop $unit
    systemctl is-failed $unit && fail "it has not stopped well"
    journalctl --no-pager -b -u $unit | grep 'is not confined' && fail "the unit forbids the confinement"
    true
}

part=$(sed 's/.*overdrive.part=\([a-z]*\).*/\1/' /proc/cmdline)
case $part in
    asleep) sleep_of_the_machine ;;
    *) "$part" ;;
esac
echo "trial: passed"
case $part in
    second) systemctl reboot ;;
    *) systemctl poweroff ;;
esac
