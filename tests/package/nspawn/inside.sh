#!/bin/bash
# inside.sh FOLDER: what the packages do under a real systemd. Runs as a unit of a container (run.sh); each check is
# named in the output, which ends with "end". Later checks use what earlier ones left.
set -uo pipefail
here=$1
cd "$here"
source "$here/common.sh"
source "$here/walkthrough.sh"
export LC_ALL=C.UTF-8 PATH=/usr/sbin:/usr/bin:/sbin:/bin DEBIAN_FRONTEND=noninteractive
work=/home/alice

property() { systemctl show -P "$2" "$1"; }
shows() { same "$2 of $1" "$3" "$(property "$1" "$2")"; }
matches() { [[ $(property "$1" "$2") =~ $3 ]] || { echo "$2 of $1: '$(property "$1" "$2")', expected '$3'"; return 1; }; }
as() { runuser -l "$1" -c "$2"; }
# exits CODE COMMAND...
exits() {
  local code=0 wanted=$1
  shift
  "$@" || code=$?
  same 'exit code' "$wanted" $code
}
# The journal is written by another process, so its lines come a moment after what they tell of.
journal() { journalctl -u npud -o json --no-pager; }
journal_has() { until_true 10 bash -c "journalctl -u npud -o json --no-pager | grep -E '$1'"; }
# signal_daemon SIGNAL: sets before to the process that gets it
signal_daemon() {
  before=$(property npud MainPID)
  ((before > 1)) && kill "-$1" "$before"
}
another() { [[ $(property npud MainPID) != 0 && $(property npud MainPID) != "$before" ]]; }

# job NAME STEPS: a small job of alice on devices 0-1
job() {
  cat >"$work/$1.yaml" <<YAML
name: $1
devices: 0-1
model: {arch: resnet8, num_classes: 10}
data: {format: synthetic, train_samples: 64, val_samples: 32, image_size: 32, channels: 3}
train: {epochs: 100000, batch_size: 16, stop_after_steps: $2, print_freq: 1000000, eval_every: 100000}
checkpoint: {every_epochs: 0, every_steps: 10, keep: 2}
YAML
}
# start_job NAME: in the background; its events go to NAME.json, its exit code to NAME.code
start_job() {
  rm -f "$work/$1".{json,code}
  as alice "npu launch $1.yaml --daemon require --max-restarts 5 -o json >$1.json 2>$1.err; echo \$? >$1.code" </dev/null >/dev/null 2>&1 &
  until_true 60 saved_or_over "$1"
  has '"type":"checkpoint"' "$work/$1.json" || { cat "$work/$1.err"; return 1; }
}
saved_or_over() { grep -q '"type":"checkpoint"' "$work/$1.json" || [[ -s $work/$1.code ]]; }
job_ends_well() { until_true 90 test -s "$work/$1.code" && same "exit code of the job" 0 "$(cat "$work/$1.code")" && has '"type":"done"' "$work/$1.json"; }
restarted() { has '"type":"restart"' "$work/$1.json"; }
not_restarted() { ! restarted "$1" >/dev/null; }

# ---- the walk-through of the documentation, as it stands there
useradd -m -s /bin/bash alice
useradd -m -s /bin/bash bob
mapfile -t steps < <(walkthrough operations.md 'Install')
check 'walk-through: it has commands' test "${#steps[@]}" -ge 6
whole_walkthrough() {
  local line
  for line in "${steps[@]}"; do
    echo "+ $line"
    bash -euo pipefail -c "$line" </dev/null || { echo "this command of docs/operations.md ended with exit code $?"; return 1; }
  done
}
check 'walk-through: every command succeeds' whole_walkthrough
((failed == 0)) || exit 1  # nothing below could be told from this

# ---- installed
check 'install: npud.service runs' shows npud.service ActiveState active
check 'install: npud.socket listens' shows npud.socket ActiveState active
check 'install: both start with the machine' bash -c 'systemctl is-enabled npud.service npud.socket >/dev/null'
check 'install: the user of the daemon' same user npud "$(ps -o user= -p "$(property npud MainPID)")"
check 'install: manual pages' bash -c 'man -w npu >/dev/null && man -w 8 npud >/dev/null && man -w 5 npu-job >/dev/null'
check 'notify: the unit is of type notify and started by it' shows npud.service Type notify
check 'status: the phase in words' matches npud StatusText '^idle, 8 devices'

# ---- who is who
uid=$(id -u alice)
check 'users: the store of the walk-through is under her real uid' test -d "/var/lib/npud/$uid"
check 'users: nobody else looks into it' bash -c "! runuser -u bob -- ls /var/lib/npud"
check 'users: who is not in group npu is refused' exits 77 as bob 'npu info'

# ---- socket activation
systemctl stop npud.service
check 'socket: stopped means stopped' shows npud.service ActiveState inactive
check 'socket: a client starts the daemon' as alice 'npu info'
check 'socket: and it is the unit' shows npud.service ActiveState active

# ---- a job of an ordinary user, and a daemon that is killed under it
job killed 400
check 'job: trains as an ordinary user' start_job killed
check 'job: the status says so' until_true 10 matches npud StatusText '^serving 1 run on 2 of 8 devices'
check 'job: its owner is the uid that the kernel names' bash -c "npu info -o json | grep -q '\"uid\":$uid'"
signal_daemon KILL
check 'kill -9: another one runs' until_true 30 another
check 'kill -9: the job goes on by itself and ends' job_ends_well killed
check 'kill -9: no rank was started again' not_restarted killed
check 'kill -9: the next daemon took the run over' journal_has 'run taken over from an earlier npud'
check 'kill -9: checkpoints are there' bash -c "runuser -l alice -c 'npu ckpt verify killed'"
check 'status: idle again' until_true 10 matches npud StatusText '^idle'
# With a job in the queue of the socket that may have been faster than Restart=; without a client it is Restart= alone.
restarts=$(property npud NRestarts)
signal_daemon KILL
check 'kill -9: without a client, too' until_true 30 another
check 'kill -9: ready again' until_true 30 shows npud ActiveState active
check 'kill -9: counted' until_true 10 shows npud NRestarts $((restarts + 1))

# ---- the journal
check 'journal: lines have the priority of their level' journal_has '"PRIORITY":"6"'
check 'journal: and the logger' journal_has '"NPU_LOGGER":"ctl"'
check 'journal: fields by name' journal_has '"NPU_(RUN|SOCKET|PID|UID)":'
check 'journal: under the name of the program' journal_has '"SYSLOG_IDENTIFIER":"npud"'

# ---- reload
cp /etc/npu/npud.yaml /root/npud.yaml
echo 'devices: many' >/etc/npu/npud.yaml
systemctl reload npud
check 'reload: a bad file changes nothing' shows npud ActiveState active
check 'reload: and the status says what is wrong' until_true 10 matches npud StatusText 'not reloaded: .*devices'
{ cat /root/npud.yaml; } >/etc/npu/npud.yaml
systemctl reload npud
check 'reload: a good file is taken' until_true 10 matches npud StatusText '^idle, 8 devices$'

# ---- a bad configuration at the start
echo 'devices: many' >/etc/npu/npud.yaml
began=$(date +%s)
systemctl restart npud
tried_once() { same tries 1 "$(journalctl -u npud --no-pager --since "@$began" | grep -c 'status=78')"; }
check 'bad configuration: exit code 78' until_true 10 shows npud ExecMainStatus 78
check 'bad configuration: failed, and no restart is due' shows npud SubState failed
check 'bad configuration: it was tried once' until_true 10 tried_once
check 'bad configuration: the journal names line and column' journal_has 'npud.yaml:1:10'
cp /root/npud.yaml /etc/npu/npud.yaml
systemctl reset-failed npud.service npud.socket
systemctl start npud.socket npud.service
check 'bad configuration: mended, it starts' shows npud ActiveState active

# ---- the watchdog
mkdir -p /run/systemd/system/npud.service.d
printf '[Service]\nWatchdogSec=2\nTimeoutAbortSec=1\n' >/run/systemd/system/npud.service.d/fast.conf
check 'watchdog: the unit has one' matches npud WatchdogUSec '^[1-9]'
systemctl daemon-reload
systemctl restart npud
petted=$(property npud WatchdogTimestampMonotonic)
again() { (($(property npud WatchdogTimestampMonotonic) > petted)); }
check 'watchdog: petted' until_true 10 again
signal_daemon STOP
check 'watchdog: a daemon that hangs is replaced' until_true 30 another
check 'watchdog: that was the reason' until_true 10 bash -c "journalctl -u npud --no-pager | grep -q 'Watchdog timeout'"
rm -r /run/systemd/system/npud.service.d
systemctl daemon-reload
systemctl restart npud

# ---- a job as a user's service
mkdir -p "$work/.config/npu/jobs"
job service 20
cp "$work/service.yaml" "$work/.config/npu/jobs/"
chown -R alice: "$work/.config"
loginctl enable-linger alice
user() { runuser -u alice -- env XDG_RUNTIME_DIR="/run/user/$uid" systemctl --user "$@"; }
check 'npu-run@: her service manager runs' until_true 30 user is-active basic.target
check 'npu-run@: starts' user start npu-run@service
service_done() { same result 'success inactive' "$(user show -P Result npu-run@service) $(user show -P ActiveState npu-run@service)"; }
check 'npu-run@: the job ends well' until_true 60 service_done
check 'npu-run@: and left its checkpoint' as alice 'npu ckpt show service'

# ---- an upgrade while a job runs
job upgraded 800
check 'upgrade: a job runs' start_job upgraded
before=$(property npud MainPID)
check 'upgrade: installs' dpkg -i next/npud_*.deb next/npu_*.deb
check 'upgrade: another daemon runs' another
check 'upgrade: the old one drained and ended well' journal_has 'shutting down runs=1'
check 'upgrade: the job goes on by itself and ends' job_ends_well upgraded
check 'upgrade: as a restart of the job' restarted upgraded
check 'upgrade: the file of the administrator stays' cmp /etc/npu/npud.yaml /root/npud.yaml
check 'upgrade: no unit failed' same units '' "$(systemctl list-units --failed --no-legend --plain 'npu*')"

# ---- removed and purged
check 'remove: succeeds' dpkg -r npu npud
check 'remove: nothing runs' bash -c '! pgrep -x npud'
check 'remove: checkpoints stay' test -d "/var/lib/npud/$uid/killed"
check 'remove: the configuration stays' test -f /etc/npu/npud.yaml
check 'purge: succeeds' dpkg -P npu npud
check 'purge: checkpoints are gone' test ! -e /var/lib/npud
check 'purge: the configuration is gone' test ! -e /etc/npu
check 'purge: the socket is gone' test ! -e /run/npud
check 'purge: systemd knows the unit no more' shows npud.service LoadState not-found
check 'purge: no unit failed' same units '' "$(systemctl list-units --failed --no-legend --plain 'npu*')"
check 'purge: links of enabling are gone' same links '' "$(find /etc/systemd/system -name 'npud*')"
echo end
