#!/bin/bash
# What is tried inside the machine: `ringcall serve` and `ringcall emulate` on a plain UDP socket, beside verbs programs on rdma_rxe.
# cases.sh RINGCALL SUITE MACHINE LIBRARIES [PATTERN]: a line a case whose name matches; exit status 1 if one of them failed. The folder
# LIBRARIES has the C library and the RoCE bridge provider.
set -u
ringcall=$1 suite=$2 machine=$3 libraries=$4 pattern=${5:-}
failed=0

# Text for people as a program reads it: in one line, and numbers without their commas.
flat() { tr -s '\n ' ' ' | sed -E ':a; s/([0-9]),([0-9]{3})/\1\2/; ta'; }
netem_dropped() { tc -s qdisc show dev veth0 | sed -n -E 's/.*dropped ([0-9]+).*/\1/p' | head -n 1; }

# read_counts OUTPUT: the associative array `counts` gets each "name number" of a report.
read_counts() {
    local entry
    counts=()
    while read -r entry; do counts[${entry% *}]=${entry#* }; done < <(flat <<<"$1" | grep -o -E '\b[a-z_]+ [0-9]+\b')
}

# result NAME PASSED TEXT CHECK OUTPUT
result() {
    if (($2)); then
        echo "$1: ok: $3"
    else
        echo "$1: FAILED: $3: $4"
        tail -n 20 <<<"$5"
        failed=1
    fi
}

# serve NAME OPTIONS TYPE REQUESTS PAYLOAD WINDOW MTU FIRST_PSN KEY_XOR CHECK
# A verbs program asks `ringcall serve OPTIONS`. The check is an arithmetic expression over the client's counts (right, lost, failed),
# the service's (counts in its report) and what netem dropped.
serve() {
    [[ $1 == *$pattern* ]] || return 0
    local name=$1 options=$2 check=${10} output before passed
    local right=0 wrong=0 refused=0 lost=0 stray=0 failed_with=0 dropped
    before=$(netem_dropped)
    output=$("$machine/client" "${@:3:7}" -- "exec ip netns exec peer $ringcall serve $options --bind 10.0.0.1:4791 \
--slots 64 --slot-bytes 4096" 2>&1)
    dropped=$(($(netem_dropped) - before))
    eval "$(sed -n -E 's/^(right=.*) failed=([0-9]+)$/\1 failed_with=\2/p' <<<"$output")"
    local -A counts=()
    read_counts "$output"
    ((passed = wrong == 0 && stray == 0 && (check)))
    grep -q "service exit=0" <<<"$output" && grep -q "unaccounted: 0 frames, 0 requests" <<<"$output" || passed=0
    result "$name" "$passed" "right=$right wrong=$wrong refused=$refused lost=$lost stray=$stray failed=$failed_with dropped=$dropped" \
        "$check" "$output"
}

# emulate NAME TYPE MTU FIRST_PSN RECEIVES OPTIONS CHECK
# `ringcall emulate OPTIONS` asks a verbs program. The check is over the emulator's counts, the verbs program's (served, bad) and what
# netem dropped.
emulate() {
    [[ $1 == *$pattern* ]] || return 0
    local name=$1 check=$7 output before passed dropped served=0 bad=0
    before=$(netem_dropped)
    output=$("$machine/responder" "$2" 2 10.0.0.1 "$3" "$4" "$5" -- "exec ip netns exec peer $ringcall emulate --connect \"\$ENDPOINT\" \
--bind 10.0.0.1:4791 $6" 2>&1)
    dropped=$(($(netem_dropped) - before))
    eval "$(grep -o -E '^served=[0-9]+ bad=[0-9]+' <<<"$output")"
    local -A counts=()
    read_counts "$output"
    ((passed = bad == 0 && counts[wrong] == 0 && (check)))
    result "$name" "$passed" "correct=${counts[correct]:-} wrong=${counts[wrong]:-} unanswered=${counts[unanswered]:-} served=$served \
dropped=$dropped" "$check" "$output"
}

uc="--peer 10.0.0.2 --remote-qp \$QPN"
for transport in roce nic; do
    over="--transport $transport $uc"
    serve "$transport, sequence numbers wrap" "$over" uc 1000 64 16 1024 0xfffff0 0 "right == 1000"
    serve "$transport, whole pages" "$over" uc 500 3000 32 4096 0 0 "right == 500"
    serve "$transport, three packets a request" "$over" uc 300 3000 16 1024 0xfffffe 0 "right == 300"
    serve "$transport, padding" "$over" uc 200 33 8 256 7 0 "right == 200"
done
roce="--transport roce $uc"
nic="--transport nic $uc"
serve "roce, wrong key" "$roce" uc 8 64 8 1024 0 1 'right == 0 && lost == 8 && counts[wrong_key] == 8'
serve "nic, wrong key" "$nic" uc 8 64 8 1024 0 1 'right == 0 && lost == 8 && counts[port_wrong_key] == 8'
# An address resolution packet may be among those dropped.
for percent in 1 5; do
    tc qdisc add dev veth0 root netem loss $percent%
    serve "roce, $percent% loss" "$roce" uc 1500 64 16 1024 0 0 \
        'right + lost == 1500 && lost > 0 && lost <= dropped && dropped <= lost + 2'
    tc qdisc del dev veth0 root
done
# A flipped bit: in the IP header the kernel drops the packet; elsewhere the invariant CRC finds it, but for fields that it leaves out.
tc qdisc add dev veth0 root netem corrupt 10%
serve "roce, damaged packets" "$roce" uc 400 64 16 1024 0 0 \
    'right + lost == 400 && counts[wrong_icrc] > 0 && counts[wrong_icrc] <= lost'
serve "nic, damaged packets" "$nic" uc 400 64 16 1024 0 0 'right + lost == 400 && counts[port_wrong_icrc] > 0'
tc qdisc del dev veth0 root

# The reliable service: what is lost or damaged is sent again, so every request is answered rightly.
rc="--transport roce --qp-type rc $uc"
serve "reliable, sequence numbers wrap" "$rc --psn 16777200" rc 1000 64 16 1024 0xfffff0 0 \
    'right == 1000 && failed_with == 0 && counts[received] == 1000'
serve "reliable, three packets a request and an answer" "$rc --mtu 1024" rc 300 3000 16 1024 0 0 'right == 300'
for percent in 1 5; do
    tc qdisc add dev veth0 root netem loss $percent%
    ip netns exec peer tc qdisc add dev veth1 root netem loss $percent%
    serve "reliable, $percent% loss each way" "$rc" rc 500 64 16 1024 0 0 'right == 500 && lost == 0 && counts[wrong_psn] > 0'
    emulate "client, reliable, $percent% loss each way" rc 1024 0 64 "--qp-type rc --requests 500 --timeout-ms 20000" \
        'counts[correct] == 500 && counts[resent] > 0'
    tc qdisc del dev veth0 root
    ip netns exec peer tc qdisc del dev veth1 root
done
tc qdisc add dev veth0 root netem corrupt 5%
serve "reliable, damaged packets" "$rc" rc 400 64 16 1024 0 0 'right == 400 && counts[wrong_icrc] > 0'
tc qdisc del dev veth0 root
# 10: remote access error.
serve "reliable, wrong key" "$rc" rc 8 64 8 1024 0 1 'right == 0 && failed_with == 10 && counts[wrong_key] > 0'
serve "reliable, wrong first sequence number" "$rc --psn 100" rc 8 64 8 1024 103 0 \
    'right == 0 && failed_with == 12 && counts[wrong_psn] > 0'
for service in uc rc; do
    meeting="--transport roce --qp-type $service --rendezvous 10.0.0.1:7000"
    serve "rendezvous, $service" "$meeting" $service 200 64 16 1024 0 0 'right == 200'
done
serve "nic, rendezvous" "--transport nic --rendezvous 10.0.0.1:7000" uc 200 64 16 1024 0 0 'right == 200'
serve "answers in four packets" "$roce --mtu 256" uc 200 1000 16 256 0 0 'right == 200'

emulate "client, reliable, sequence numbers wrap" rc 1024 0xfffff0 64 "--qp-type rc --psn 16777200 --requests 1000" \
    'counts[correct] == 1000 && counts[resent] == 0'
emulate "client, reliable, three packets a request and an answer" rc 1024 0 64 "--qp-type rc --requests 300 --payload 3000" \
    'counts[correct] == 300'
emulate "client, reliable, receiver not ready" rc 1024 0 2 "--qp-type rc --requests 500 --in-flight 32 --timeout-ms 20000" \
    'counts[correct] == 500 && counts[told_not_ready] > 0'
emulate "client, unreliable" uc 1024 0 64 "--requests 1000 --icrc recover" 'counts[correct] == 1000 && served == 1000'
emulate "client, unreliable, iCRC ignored" uc 4096 0 64 "--requests 500 --payload 3000 --icrc ignore --timeout-ms 3000" 'counts[correct] == 500'
# An adapter's identification is not 0: every answer is refused, and counted.
emulate "client, unreliable, iCRC of identification 0" uc 1024 0 64 "--requests 32 --icrc zero --timeout-ms 300" \
    'counts[correct] <= 1 && counts[unanswered] >= 31'

# Through libibverbs: the service in this namespace, where the device is; the client is software RoCE in the other, or a second adapter.
# verbs NAME SERVICE_OPTIONS CLIENT CLIENT_OPTIONS CHECK
# CLIENT is a command prefix that runs the client. The check is over the client's counts, and what the service counted (with `service_`).
verbs() {
    [[ $1 == *$pattern* ]] || return 0
    local name=$1 client=$3 check=$5 output service pid passed entry
    local -A counts=()
    $ringcall serve --transport verbs --device rxe0 --rendezvous 10.0.0.2:7000 $2 >/tmp/service 2>&1 &
    pid=$!
    for _ in $(seq 100); do
        grep -q '^transport=verbs' /tmp/service && break
        sleep 0.1
    done
    output=$($client $ringcall emulate --connect "$(grep -m 1 ^transport= /tmp/service)" --rendezvous 10.0.0.2:7000 $4 2>&1)
    kill -TERM $pid
    wait $pid
    local status=$?
    service=$(grep -v ^transport= /tmp/service)
    read_counts "$output"
    while read -r entry; do counts[service_${entry% *}]=${entry#* }; done < <(flat <<<"$service" | grep -o -E '\b[a-z_]+ [0-9]+\b')
    ((passed = status == 0 && counts[wrong] == 0 && (check)))
    grep -q "unaccounted: 0 frames, 0 requests" <<<"$service" || passed=0
    result "$name" "$passed" "correct=${counts[correct]:-} wrong=${counts[wrong]:-} unanswered=${counts[unanswered]:-} service=$status" \
        "$check" "$output
$service"
}

software="ip netns exec peer"
for service in uc rc; do
    verbs "verbs, $service, software client" "--qp-type $service" "$software" "--bind 10.0.0.1:4791 --requests 1000" \
        'counts[correct] == 1000 && counts[service_answered] == 1000'
    verbs "verbs, $service, verbs client" "--qp-type $service" "" "--transport verbs --device rxe0 --requests 1000" \
        'counts[correct] == 1000 && counts[service_answered] == 1000'
done
packets() { cat /sys/class/infiniband/rxe0/ports/1/hw_counters/rcvd_pkts; }
# await_requests BEFORE: waits until the device has received some 200 packets since it had received BEFORE, 15 s at most.
await_requests() {
    for _ in $(seq 150); do
        (($(packets) > $1 + 200)) && return 0
        sleep 0.1
    done
}
# A service that is killed: its client ends by itself, with one line that says why.
gone() {
    [[ $1 == *$pattern* ]] || return 0
    local output status service client before
    before=$(packets)
    $ringcall serve --transport verbs --device rxe0 --rendezvous 10.0.0.2:7000 --qp-type rc >/tmp/service 2>&1 &
    service=$!
    for _ in $(seq 100); do
        grep -q '^transport=verbs' /tmp/service && break
        sleep 0.1
    done
    $ringcall emulate --connect "$(grep -m 1 ^transport= /tmp/service)" --transport verbs --device rxe0 --rendezvous 10.0.0.2:7000 --requests 1000000 \
        --timeout-ms 1500 >/tmp/client 2>&1 &
    client=$!
    await_requests "$before"
    kill -KILL $service
    wait $service 2>/dev/null
    wait $client
    status=$?
    output=$(grep '^ringcall: ' /tmp/client)
    grep -q -E 'the connection has ended: transport retries exceeded|nobody answers|no answer' <<<"$output"
    result "$1" "$(($? == 0 && status == 1))" "$output" "exit status $status" "$(cat /tmp/client)"
}
gone "verbs, rc, the peer is gone"

# The device is removed while a service and its client use it. The kernel's removal waits for programs that have the device open, so it ends
# because the service closes the device; the service says so in one line, counts it, and still ends as it is told.
removed() {
    [[ $1 == *$pattern* ]] || return 0
    local service client removal ended=0 status said before
    local -A counts=()
    before=$(packets)
    $ringcall serve --transport verbs --device rxe0 --rendezvous 10.0.0.2:7000 --qp-type "$2" >/tmp/service 2>&1 &
    service=$!
    for _ in $(seq 100); do
        grep -q '^transport=verbs' /tmp/service && break
        sleep 0.1
    done
    ip netns exec peer $ringcall emulate --connect "$(grep -m 1 ^transport= /tmp/service)" --rendezvous 10.0.0.2:7000 \
        --bind 10.0.0.1:4791 --qp-type "$2" --requests 1000000 --timeout-ms 500 >/tmp/client 2>&1 &
    client=$!
    await_requests "$before"
    rdma link del rxe0 &
    removal=$!
    for _ in $(seq 150); do
        kill -0 $removal 2>/dev/null || { ended=1 && break; }
        sleep 0.1
    done
    # Longer than between two looks at the counters.
    sleep 1.5
    kill -0 $service 2>/dev/null && said=$(grep -c 'the RDMA device was removed' /tmp/service)
    kill -TERM $service
    wait $service
    status=$?
    kill -TERM $client 2>/dev/null
    wait $client $removal
    rdma link add rxe0 type rxe netdev veth0
    read_counts "$(grep -v ^transport= /tmp/service)"
    ((ended && status == 0 && ${said:-0} == 1 && counts[device_removed] == 1 && counts[answered] > 0)) &&
        grep -q "unaccounted: 0 frames, 0 requests" <(flat </tmp/service)
    result "$1" "$(($? == 0))" "removal ended=$ended said=${said:-0} device_removed=${counts[device_removed]:-} answered=${counts[answered]:-}" \
        "exit status $status" "$(cat /tmp/service)"
}
for service in uc rc; do
    removed "verbs, $service, the device is removed" $service
done

# suite NAME TYPE CLIENT: the transports' conformance suite.
suite() {
    [[ $1 == *$pattern* ]] || return 0
    local output status
    output=$("$suite" rxe0 "$2" "$3" 2>&1)
    status=$?
    result "$1" "$((status == 0))" "$(tail -n 1 <<<"$output")" "suite" "$output"
}
suite "conformance, verbs, uc, verbs client" uc adapter
suite "conformance, verbs, rc, verbs client" rc adapter
suite "conformance, verbs, rc, software client" rc peer

# Through the C functions `cpu_roce_*`: two transceivers of one adapter, moved by threads, driven by their user, and one that sends back.
transceivers() {
    [[ $1 == *$pattern* ]] || return 0
    local output
    output=$(timeout 120 "$machine/roce" rxe0 10.0.0.2 2>&1)
    result "$1" "$(($? == 0))" "$(tail -n 1 <<<"$output")" "exit status" "$output"
}
transceivers "C functions cpu_roce"

# The bridge provider over the adapter, with the arguments of the reference's CPU RoCE provider, in a service of ours.
provider() {
    [[ $1 == *$pattern* ]] || return 0
    local output status pid
    local -A counts=()
    $ringcall serve --transport plugin:"$libraries/libringcall_bridge_roce.so" -- --device=rxe0 --local-ip=10.0.0.2 --qp_config=rendezvous \
        --port=7000 --num-slots=64 --slot-size=4096 ${2:-} >/tmp/service 2>&1 &
    pid=$!
    for _ in $(seq 100); do
        grep -q '^transport=verbs' /tmp/service && break
        sleep 0.1
    done
    output=$($ringcall emulate --connect "$(grep -m 1 ^transport= /tmp/service)" --rendezvous 10.0.0.2:7000 --transport verbs --device rxe0 \
        --requests 500 2>&1)
    kill -TERM $pid
    wait $pid
    status=$?
    read_counts "$output"
    result "$1" "$((status == 0 && counts[correct] == 500))" "correct=${counts[correct]:-} service=$status" "provider" "$output
$(cat /tmp/service)"
}
provider "bridge provider, adapter, ring"
provider "bridge provider, adapter, data plane" --unified
exit $failed
