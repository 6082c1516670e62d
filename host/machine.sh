#!/usr/bin/env bash
# Boots a Linux with sched_ext in QEMU, and runs SCRIPT in it as root, with FILEs in its PATH:
#   machine.sh SCRIPT [FILE...]
# The kernel is Debian's for clouds, of unstable: its packages are fetched by apt-get, unpacked, not installed, and kept in
# the user's cache folder. QEMU emulates AMD's virtualisation, and the kernel is told to believe in pause filters, which the
# emulator has not: so every pause of a guest is a pause-loop exit. Exits with 77 if something is missing.
set -euo pipefail
script=$(realpath "$1"); shift
files=$(realpath "$@" 2>/dev/null || true)
skip() { echo "skipped: $*"; exit 77; }
cache=${XDG_CACHE_HOME:-$HOME/.cache}/overlock/host-linux
for tool in qemu-system-x86_64 cpio xz apt-get dpkg-deb; do command -v $tool >/dev/null || skip "there is no $tool here"; done
busybox=$(command -v busybox) && file_is_static() { ! ldd "$1" >/dev/null 2>&1; } && file_is_static "$busybox" ||
  skip "there is no static busybox here: apt-get install busybox-static"

fetch() { # into the folder $1
  local apt=$1/apt name
  mkdir -p "$apt"/{state/lists/partial,cache/archives/partial,packages}
  echo 'deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] http://deb.debian.org/debian unstable main' >"$apt/list"
  cat >"$apt/conf" <<C
Dir::Etc::sourcelist "$apt/list"; Dir::Etc::sourceparts "-"; Dir::State "$apt/state"; Dir::Cache "$apt/cache";
Dir::State::status "/var/lib/dpkg/status"; Acquire::Languages "none"; APT::Sandbox::User "root";
C
  export APT_CONFIG=$apt/conf
  apt-get update -qq >/dev/null 2>&1 || return 1
  name=$(apt-cache depends linux-image-cloud-amd64 | sed -n 's/.*Depends: linux-image-\([0-9].*\)/\1/p' | head -1)
  [ -n "$name" ] || return 1
  (cd "$apt/packages" && apt-get download -qq "linux-binary-$name" "linux-modules-$name" >/dev/null 2>&1) || return 1
  for package in "$apt"/packages/*.deb; do dpkg-deb -x "$package" "$1/all"; done
  cp "$1"/all/usr/lib/modules/*/vmlinuz "$1/vmlinuz"
  for module in virt/lib/irqbypass arch/x86/kvm/kvm arch/x86/kvm/kvm-amd; do
    xz -dc "$1"/all/usr/lib/modules/*/kernel/$module.ko.xz >"$1/$(basename $module).ko"
  done
  rm -rf "$1/all" "$apt"
}
if [ ! -e "$cache/vmlinuz" ]; then
  mkdir -p "$(dirname "$cache")"; draft=$(mktemp -d "$cache.XXXX")
  fetch "$draft" || { rm -rf "$draft"; skip "Debian's kernel can't be fetched (linux-image-cloud-amd64 of unstable)"; }
  mv -T "$draft" "$cache" 2>/dev/null || rm -rf "$draft"
fi

root=$(mktemp -d); trap 'rm -rf "$root"' EXIT
mkdir -p "$root"/r/{bin,proc,sys,dev,tmp,modules}
cp "$busybox" "$root/r/bin/busybox"; cp "$cache"/*.ko "$root/r/modules"; cp "$script" "$root/r/script"
for file in $files; do
  cp -L "$file" "$root/r/bin"
  for library in $(ldd "$file" 2>/dev/null | awk '/=>/{print $3} /ld-linux/{print $1}'); do
    mkdir -p "$root/r$(dirname "$library")"; cp -Ln "$library" "$root/r$library"
  done
done
cat >"$root/r/init" <<'I'
#!/bin/busybox sh
/bin/busybox --install -s /bin
mount -t proc none /proc; mount -t sysfs none /sys; mount -t devtmpfs none /dev; mount -t tmpfs none /tmp
mount -t debugfs none /sys/kernel/debug; mount -t tracefs none /sys/kernel/tracing; mount -t bpf none /sys/fs/bpf
mount -t cgroup2 none /sys/fs/cgroup
cd /tmp; exec </dev/null >/dev/ttyS1 2>&1
. /script
sync; poweroff -f
I
chmod +x "$root/r/init"
(cd "$root/r" && find . | cpio -o -H newc 2>/dev/null | gzip -1) >"$root/initrd"
boot() {
  timeout "${LIMIT:-600}" qemu-system-x86_64 -display none -nodefaults -no-reboot -accel tcg,thread=multi \
    -cpu EPYC,+svm,-monitor -smp "${CPUS:-2}" -m 1500 -kernel "$cache/vmlinuz" -initrd "$root/initrd" \
    -append "console=ttyS0 quiet panic=-1 tsc=reliable no_timer_check nowatchdog setcpuid=pausefilter,pfthreshold \
rcupdate.rcu_cpu_stall_suppress=1" \
    -serial file:"$root/console" -serial stdio </dev/null 2> >(grep -v "TCG doesn't support" >&2) | tr -d '\r'
}
# The emulator sometimes runs an instruction of the kernel that the kernel has changed meanwhile. Then it starts again.
for try in $(seq 8); do
  boot >"$root/said"
  grep -q 'Oops: int3' "$root/console" || break
  echo "the emulator tripped over changed code (try $try)" >&2
done
! grep -q 'Oops: int3' "$root/console" || skip "in each of $try starts, the emulator tripped over code that was changed"
cat "$root/said"
! grep -E 'Kernel panic|Oops' "$root/console"
