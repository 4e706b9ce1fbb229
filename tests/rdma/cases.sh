#!/bin/bash
# What is tried inside the machine: `ringcall serve` on a plain UDP socket, asked by a verbs program on rdma_rxe.
# cases.sh RINGCALL CLIENT: a line a case; exit status 1 if one of them failed.
set -u
ringcall=$1 client=$2
failed=0

# serve NAME TRANSPORT REQUESTS PAYLOAD WINDOW MTU FIRST_PSN KEY_XOR CHECK
# The check is an arithmetic expression over the client's counts (right, lost), the service's (counts in its report) and what
# netem dropped.
serve() {
    local name=$1 transport=$2 check=$9 output text before
    local right=0 wrong=0 refused=0 lost=0 stray=0 dropped
    before=$(netem_dropped)
    output=$("$client" "${@:3:6}" -- "exec ip netns exec peer $ringcall serve --transport $transport --bind 10.0.0.1:4791 \
--remote-qp \$QPN --peer 10.0.0.2 --slots 64 --slot-bytes 4096" 2>&1)
    dropped=$(($(netem_dropped) - before))
    eval "$(grep -o -E '^right=[0-9]+ wrong=[0-9]+ refused=[0-9]+ lost=[0-9]+ stray=[0-9]+' <<<"$output")"
    text="right=$right wrong=$wrong refused=$refused lost=$lost stray=$stray dropped=$dropped"
    local -A counts=()
    local entry
    while read -r entry; do counts[${entry% *}]=${entry#* }; done < <(grep -o -E '\b[a-z_]+ [0-9]+\b' <<<"$output")
    if ((wrong == 0 && stray == 0 && (check))) && grep -q "service exit=0" <<<"$output" &&
        grep -q "unaccounted: 0 frames, 0 requests" <<<"$output"; then
        echo "$name: ok: $text"
    else
        echo "$name: FAILED: $text: $check"
        tail -n 20 <<<"$output"
        failed=1
    fi
}

netem_dropped() { tc -s qdisc show dev veth0 | sed -n -E 's/.*dropped ([0-9]+).*/\1/p' | head -n 1; }

for transport in roce nic; do
    serve "$transport, sequence numbers wrap" $transport 5000 64 16 1024 0xfffff0 0 "right == 5000"
    serve "$transport, whole pages" $transport 500 3000 32 4096 0 0 "right == 500"
    serve "$transport, three packets a request" $transport 300 3000 16 1024 0xfffffe 0 "right == 300"
    serve "$transport, padding" $transport 200 33 8 256 7 0 "right == 200"
done
serve "roce, wrong key" roce 8 64 8 1024 0 1 'right == 0 && lost == 8 && counts[wrong_key] == 8'
serve "nic, wrong key" nic 8 64 8 1024 0 1 'right == 0 && lost == 8 && counts[port_wrong_key] == 8'
# An address resolution packet may be among those dropped.
for percent in 1 5; do
    tc qdisc add dev veth0 root netem loss $percent%
    serve "roce, $percent% loss" roce 1500 64 16 1024 0 0 'right + lost == 1500 && lost > 0 && lost <= dropped && dropped <= lost + 2'
    tc qdisc del dev veth0 root
done
# A flipped bit: in the IP header the kernel drops the packet; elsewhere the invariant CRC finds it, but for fields that it leaves out.
tc qdisc add dev veth0 root netem corrupt 10%
serve "roce, damaged packets" roce 400 64 16 1024 0 0 'right + lost == 400 && counts[wrong_icrc] > 0 && counts[wrong_icrc] <= lost'
serve "nic, damaged packets" nic 400 64 16 1024 0 0 'right + lost == 400 && counts[port_wrong_icrc] > 0'
tc qdisc del dev veth0 root
exit $failed
