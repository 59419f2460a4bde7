#!/bin/sh
# The package's trial, one part a boot. A line that begins with `trial:` is for the host.
set -eu

packages=/opt/trial
fail() { echo "failed: $*"; exit 1; }

ended() {
    status=$?
    [ "$status" = 0 ] && return
    systemctl --no-pager --failed || true
    cat /tmp/said 2> /dev/null || true
    journalctl --no-pager -b -u 'overdrive*' -u 'mnt-*' | tail -n 40 || true
    echo "trial: failed"
    systemctl poweroff --force --force
}
trap ended EXIT

now_ms() { date +%s%3N; }

# What a package manager says is shown if something fails.
apt() { DEBIAN_FRONTEND=noninteractive apt-get -y -qq "$@" > /tmp/said 2>&1; }
said() { grep -q -- "$1" /tmp/said || fail "not said: $1"; }

write() { # DIRECTORY NAME MIB
    head -c "$3M" /dev/urandom > "$1/$2"
    (cd "$1" && sha256sum "$2" > "$2.sum")
    sync -f "$1"
}
check() { echo 3 > /proc/sys/vm/drop_caches; (cd "$1" && sha256sum --quiet --check ./*.sum) || fail "$1: other data than was written"; }

daemon() { systemctl show --property MainPID --value overdrive-device@data; }

# A load that writes one block after another, each with a sync, and reads others; it ends when FILE.stop appears, and
# then compares every block with what it has written last. It prints the longest time of a request.
cat > /tmp/load.pl << 'EOF'
use Fcntl; use strict;
my ($file) = @ARGV;
my ($size, $count, $longest, $requests, @last) = (4096, 1024, 0, 0);
sub now { my $time = pack("qq", 0, 0); syscall(228, 1, $time); my ($s, $ns) = unpack("qq", $time); $s + $ns / 1e9 }
sub block { substr(pack("QQ", $_[0], $_[1]) x ($size / 16), 0, $size) }
sysopen(my $it, $file, O_RDWR | O_CREAT | O_SYNC) or die "open: $!";
sub look { sysseek($it, $_[0] * $size, 0); sysread($it, my $is, $size) == $size or die "read: $!";
    $is eq block($_[0], $last[$_[0]]) or die "block $_[0] is not what was written" }
while (!-e "$file.stop") {
    my $at = int(rand($count)); my $start = now();
    sysseek($it, $at * $size, 0); syswrite($it, block($at, ++$requests)) == $size or die "write: $!";
    $last[$at] = $requests;
    my $other = int(rand($count)); look($other) if defined $last[$other];
    my $took = now() - $start; $longest = $took if $took > $longest;
}
system("echo 3 > /proc/sys/vm/drop_caches");
for my $at (grep { defined $last[$_] } 0 .. $count - 1) { look($at) }
printf("%d requests, no error; the longest took %.0f ms\n", $requests, $longest * 1000);
EOF
begin() { rm -f "/mnt/data/$1.stop"; perl /tmp/load.pl "/mnt/data/$1" > "/tmp/$1.out" 2>&1 & load=$!; sleep 2; }
finish() { # NAME
    sleep 2
    touch "/mnt/data/$1.stop"
    wait "$load" || fail "the load has failed: $(cat "/tmp/$1.out")"
    echo "$1: $(cat "/tmp/$1.out")"
}

# All files of the system, without those of the package manager, logs and this trial.
files() {
    find / -xdev \( -path /proc -o -path /sys -o -path /dev -o -path /run -o -path /tmp -o -path /opt -o -path /mnt \
        -o -path /var/lib/dpkg -o -path /var/lib/apt -o -path /var/cache -o -path /var/log -o -path /var/lib/systemd \
        -o -path /var/tmp -o -path /srv \) -prune -o -print | sort
}

# Three commands: install, configure, start. `data` is a whole disk. Its users wait for as long as there is no daemon:
# here a package manager needs more than the default.
configure() {
    cat > /etc/overdrive/data.toml << 'EOF'
[volume.data]
backing = "/dev/disk/by-id/virtio-scratch"
memory = "64M"
attach = true
wait_time = "forever"
EOF
}
mount_at_boot() {
    echo '/dev/overdrive/data /mnt/data ext4 nofail,x-systemd.device-timeout=10min,x-systemd.after=overdrive-device@data.service 0 2' \
        >> /etc/fstab
    systemctl daemon-reload
    mkdir -p /mnt/data
}
mounted() {
    for _ in $(seq 1500); do findmnt -n /mnt/data > /dev/null && break; sleep 0.2; done
    findmnt -n /mnt/data || fail "/mnt/data is not mounted"
}

install() {
    command -v cargo overdrive > /dev/null && fail "this system has the project's tools"
    files > /opt/before
    start=$(now_ms)
    apt install $packages/overdrive.deb
    configure
    systemctl enable --now overdrive-device@data 2> /dev/null
    [ -b /dev/overdrive/data ] || fail "no device"
    echo "from the package to an attached volume: 3 commands, $(($(now_ms) - start)) ms"
    overdrive doctor > /dev/null || fail "doctor finds faults"
    [ -f /usr/share/man/man1/overdrive-attach.1.gz ] || fail "no manual page"
    mkfs.ext4 -q /dev/overdrive/data
    mount_at_boot
    mount /mnt/data
    write /mnt/data first 16
    journal
    upgrade
    downgrade
    if apt remove overdrive; then fail "removed while a volume is attached"; fi
    said "overdrive: data: it is the device"
    systemctl is-active --quiet overdrive-device@data || fail "a refused removal has stopped the service"
    overdrive volume list > /dev/null || fail "a refused removal has removed the program"
    check /mnt/data
}

# A message about a volume has its name as a field, and belongs to its unit.
journal() {
    overdrive volume set data log_level=debug dirty_age=4s > /dev/null
    fields="-u overdrive-device@data VOLUME=data SYSLOG_IDENTIFIER=overdrive PRIORITY=7"
    for _ in $(seq 50); do
        # shellcheck disable=SC2086
        journalctl --no-pager -q -b -o cat $fields | grep -q '^data: set log_level=debug dirty_age=4s$' && return
        sleep 0.2
    done
    fail "the journal has no message of the volume"
}

upgrade() {
    before=$(daemon)
    # For comparison: the same load while nothing happens.
    begin undisturbed
    finish undisturbed
    begin upgraded
    apt install $packages/higher.deb
    said "data upgraded"
    finish upgraded
    [ "$(daemon)" = "$before" ] || fail "the daemon was started anew"
    check /mnt/data
}

# An older program does not replace the daemons. If they are killed then, the older one refuses to serve, and the data
# waits until a program that reads it is installed: `data`, whose configuration the older one does not understand, and
# `plain`, whose memory has another format.
downgrade() {
    serve_plain
    begin downgraded
    apt install --allow-downgrades $packages/former.deb
    said "data: still served by the program of version 0.2.0-1, with all its data"
    said "plain: still served by the program of version 0.2.0-1, with all its data"
    finish downgraded
    check /mnt/data
    plain_is_refused
    begin refused
    kill -KILL "$(daemon)"
    sleep 3
    systemctl is-active --quiet overdrive-device@data && fail "a program that cannot read the memory serves it"
    apt install $packages/higher.deb
    finish refused
    check /mnt/data
    plain_is_whole
}

# A client by NBD: `write` writes 2 MiB without a flush, `check` compares them.
cat > /tmp/nbd.pl << 'EOF'
use Socket; use strict;
my ($action, $path, $name) = @ARGV;
my ($size, $count) = (65536, 32);
socket(my $it, AF_UNIX, SOCK_STREAM, 0) or die "socket: $!";
connect($it, sockaddr_un($path)) or die "$path: $!";
sub get { my $all = ""; while (length $all < $_[0]) {
    sysread($it, $all, $_[0] - length $all, length $all) or die "the connection has ended" } $all }
sub put { my $sent = 0; while ($sent < length $_[0]) {
    $sent += syswrite($it, $_[0], length($_[0]) - $sent, $sent) || die "write: $!" } }
get(18);
put(pack("N", 3) . "IHAVEOPT" . pack("NN", 7, length($name) + 6) . pack("N", length $name) . $name . pack("n", 0));
for (my $type = 0; $type != 1;) {
    (undef, undef, undef, $type, my $length) = unpack("NNNNN", get(20));
    $type < 1 << 31 or die "no export '$name'";
    get($length);
}
sub request { my ($type, $block, $data) = @_;
    put(pack("NnnQ>Q>N", 0x25609513, 0, $type, $block, $block * $size, $size) . $data);
    my ($magic, $error) = unpack("NNQ", get(16));
    $magic == 0x67446698 && !$error or die "block $block: error $error" }
for my $block (0 .. $count - 1) {
    my $data = pack("QQ", $block, 0x0ddba11) x ($size / 16);
    if ($action eq "write") { request(1, $block, $data); next }
    request(0, $block, "");
    get($size) eq $data or die "block $block is not what was written";
}
EOF
plain_client() { perl /tmp/nbd.pl "$1" /run/overdrive/plain.sock plain || fail "plain: $1"; }
plain_says() { journalctl --no-pager -q -b -o cat -u overdrive@plain; }

# A configuration that the older program reads, too; the data stays in memory.
serve_plain() {
    truncate -s 64M /srv/plain.img
    cat > /etc/overdrive/plain.toml << 'EOF'
nbd = "unix:/run/overdrive/plain.sock"
[volume.plain]
backing = "/srv/plain.img"
memory = "32M"
write = "back-now"
dirty_age = "1000s"
flush_target = "0"
EOF
    systemctl start overdrive@plain
    plain_client write
    plain_client check
}

plain_is_refused() {
    kill -KILL "$(systemctl show -P MainPID overdrive@plain)"
    for _ in $(seq 300); do plain_says | grep -q 'code=exited' && break; sleep 0.2; done
    plain_says | grep -q 'code=exited, status=7/' || fail "plain: the status is not 7"
    plain_says | grep 'code=exited' | grep -v 'status=7/' && fail "plain: another status than 7"
    plain_says | grep -q 'of another version of Overdrive' || fail "plain: the reason is not in the journal"
    cmp -s -n 2097152 /srv/plain.img /dev/zero || fail "plain: the data was not in memory only: this proves nothing"
}

plain_is_whole() {
    for _ in $(seq 300); do systemctl is-active --quiet overdrive@plain && break; sleep 0.2; done
    plain_client check
    systemctl stop overdrive@plain
    perl -e 'print pack("QQ", $_, 0x0ddba11) x 4096 for 0 .. 31' | cmp -n 2097152 - /srv/plain.img ||
        fail "plain: the image has other data than was written"
    rm /etc/overdrive/plain.toml /srv/plain.img
}

rebooted() {
    mounted
    dmesg | grep -E 'recovery (complete|required)' && fail "needs recovery after an orderly end"
    check /mnt/data
    write /mnt/data second 8
    (while :; do head -c 4M /dev/urandom > /mnt/data/unfinished; done) &
    sleep 3
    echo "trial: cut"
    sleep 1000
}

# After the power cut.
cut() {
    mounted
    check /mnt/data
    umount /mnt/data
    if apt remove overdrive; then fail "removed while a volume is attached"; fi
    said "overdrive: data: it is the device"
    systemctl disable --now overdrive-device@data 2> /dev/null
    sed -i '\|/mnt/data|d' /etc/fstab
    systemctl daemon-reload
    orphaned
    apt remove overdrive
    [ ! -e /usr/bin/overdrive ] || fail "the program is still there"
    [ -f /etc/overdrive/data.toml ] || fail "a removal has removed the configuration"
    purged
    # What is on the disk is what was on the volume.
    fsck.ext4 -fn $disk > /dev/null || fail "the disk is not whole"
    mount $disk /mnt/data
    check /mnt/data
    umount /mnt/data
    [ -f /srv/image.img ] || fail "an image was removed"
}
disk=/dev/disk/by-id/virtio-scratch

# A purge leaves nothing but the administrator's configuration.
purged() {
    configuration=$(cat /etc/overdrive/data.toml)
    apt purge overdrive
    [ "$(cat /etc/overdrive/data.toml)" = "$configuration" ] || fail "a purge has changed the configuration"
    rm -r /etc/overdrive
    files > /opt/after
    diff /opt/before /opt/after || fail "a purge leaves files"
    [ ! -e /run/overdrive ] || fail "a purge leaves /run/overdrive"
}

# Unwritten data of a dead daemon is never dropped.
orphaned() {
    truncate -s 64M /srv/image.img
    overdrive attach /srv/image.img --name image --memory 32M --write back-now --dirty-age 600s --guard off
    dd if=/dev/urandom of=/tmp/written bs=64k count=64 status=none
    dd if=/tmp/written of=/dev/overdrive/image bs=64k oflag=direct status=none
    for process in /proc/[0-9]*; do
        if tr '\0' ' ' < "$process/cmdline" 2> /dev/null | grep -q '^[^ ]*overdrive supervise .*image'; then
            kill -KILL "${process#/proc/}"
        fi
    done
    kill -KILL "$(overdrive volume list --noheadings --output name,pid | sed -n 's/^image *//p')"
    if apt remove overdrive; then fail "removed while a dead daemon's data is in memory"; fi
    said "overdrive: image: "
    overdrive attach /srv/image.img --name image --memory 32M
    overdrive detach image
    cmp -n 4194304 /tmp/written /srv/image.img || fail "the dead daemon's data was lost"
}

# From 'cargo xtask install' to the package, while a volume is in use.
moved() {
    files > /opt/before
    cp -a $packages/local/. /
    mkdir -p /etc/overdrive
    configure
    mkfs.ext4 -q $disk
    systemctl daemon-reload
    udevadm control --reload
    mount_at_boot
    systemctl enable --now overdrive-device@data 2> /dev/null
    mount /mnt/data
    write /mnt/data first 16
    begin moving
    apt install $packages/overdrive.deb
    said "data upgraded"
    finish moving
    check /mnt/data
    find /usr/local -name "*overdrive*" | grep -v -x -e /usr/local/bin/overdrive -e "/usr/local/lib/overdrive" && fail "left in /usr/local"
    systemctl show -P FragmentPath overdrive-device@data | grep -q -E "^(/usr)?/lib/" || fail "a unit of /usr/local"
    systemctl is-enabled --quiet overdrive-device@data || fail "the service is not enabled any more"
    begin restarted
    systemctl restart overdrive-device@data
    finish restarted
    tr '\0' ' ' < "/proc/$(daemon)/cmdline" | grep -q ^/usr/bin/overdrive || fail "the former path is still used"
    check /mnt/data
    umount /mnt/data
    systemctl disable --now overdrive-device@data 2> /dev/null
    sed -i '\|/mnt/data|d' /etc/fstab
    purged
}

part=$(sed 's/.*overdrive.part=\([a-z]*\).*/\1/' /proc/cmdline)
"$part"
echo "trial: passed"
systemctl poweroff
