use super::*;

const QUEUE: Queue =
    Queue { umem: 0x1122_3344, offset: 0x1000, record_umem: 0x5566_7788, record_offset: 0x40 };
const PAIR: QueuePairSettings = QueuePairSettings {
    service: ConnectionService::Unreliable,
    protection_domain: 0x00AB_CDEF,
    uar_page: 0x12,
    send_cq: 0x34,
    receive_cq: 0x56,
    log_send: 6,
    log_receive: 10,
    queue: QUEUE,
    send_record_mode: 0,
};

/// Bytes that are not zero.
fn set(command: &Command) -> Vec<(usize, u8)> {
    command.iter().copied().enumerate().filter(|(_, byte)| *byte != 0).collect()
}

#[test]
fn a_completion_queue_byte_by_byte() {
    let cq = Completions {
        log_entries: 6,
        uar_page: 0x0001_0203,
        event_queue: 9,
        queue: QUEUE,
        ignore_overrun: true,
        collapsed: false,
    };
    let expected = [
        (0, 0x04), // opcode
        // context, from byte 16
        (16, 0x02), // the record's memory is valid
        (17, 0x02), // overrun ignored
        (20, 0x55),
        (21, 0x66),
        (22, 0x77),
        (23, 0x88), // the record's memory
        (28, 6),    // entries
        (29, 1),
        (30, 2),
        (31, 3),    // doorbell page
        (39, 9),    // event queue
        (79, 0x40), // the record's offset
        (86, 0x10), // the queue's offset
        (88, 0x11),
        (89, 0x22),
        (90, 0x33),
        (91, 0x44), // its memory
        (92, 0x80), // is valid
    ];
    assert_eq!(set(&create_cq(&cq).expect("it fits")), expected);
    let collapsed =
        create_cq(&Completions { collapsed: true, ignore_overrun: false, ..cq }).expect("it fits");
    assert_eq!(collapsed[17], 0x10);
}

#[test]
fn a_queue_pair_byte_by_byte() {
    let expected = [
        (0, 0x05), // opcode
        // context, from byte 24
        (25, 1),    // unreliable
        (26, 0x18), // path state
        (29, 0xAB),
        (30, 0xCD),
        (31, 0xEF),    // protection domain
        (33, 10 << 3), // receive requests
        (34, 6 << 3),  // send requests
        (39, 0x12),    // doorbell page
        (41, 0xFF),
        (42, 0xFF),
        (43, 0xFF),  // no user index
        (151, 0x34), // completion queue of sends
        (183, 0x56), // of receives
        (191, 0x40), // the record's offset
        (232, 0x10), // the record's memory is valid
        (252, 0x55),
        (253, 0x66),
        (254, 0x77),
        (255, 0x88), // it
        (262, 0x10), // the queues' offset
        (264, 0x11),
        (265, 0x22),
        (266, 0x33),
        (267, 0x44), // their memory
        (268, 0x80), // is valid
    ];
    assert_eq!(set(&create_qp(&PAIR).expect("it fits")), expected);
    let reliable =
        create_qp(&QueuePairSettings { service: ConnectionService::Reliable, ..PAIR }).expect("it fits");
    assert_eq!(reliable[25], 0);
}

#[test]
fn the_way_to_ready() {
    let init = to_init(0x00C0_FFEE, ConnectionService::Unreliable, 1, 2).expect("it fits");
    let common =
        |opcode: u8| vec![(0, 0x05), (1, opcode), (9, 0xC0), (10, 0xFF), (11, 0xEE), (25, 1), (26, 0x18)];
    // Byte 48: the path. Byte 170: what the peer may do.
    assert_eq!(set(&init), [common(2), vec![(51, 2), (85, 1), (170, 0x40)]].concat());

    let path = Path {
        port: 1,
        gid_index: 3,
        mtu: Mtu::B4096,
        hop_limit: 255,
        traffic_class: 0,
        udp_port: 0xC001,
        gid: gid_of(Ipv4Addr::new(10, 0, 0, 7)),
        mac: [1, 2, 3, 4, 5, 6],
        qp: 0x00AA_BBCC,
        psn: 0x0011_2233,
    };
    let receive = to_receive(0x00C0_FFEE, ConnectionService::Unreliable, &path).expect("it fits");
    let expected = vec![
        (32, 5 << 5 | 30), // MTU, longest message
        (45, 0xAA),
        (46, 0xBB),
        (47, 0xCC), // the peer's queue pair
        (57, 3),    // own address
        (59, 255),  // hop limit
        (74, 0xFF),
        (75, 0xFF),
        (76, 10),
        (79, 7), // the peer's address, from byte 64
        (82, 0xC0),
        (83, 0x01), // UDP port
        (85, 1),    // port
        (86, 1),
        (87, 2),
        (88, 3),
        (89, 4),
        (90, 5),
        (91, 6),     // MAC address
        (170, 0x40), // the peer may write
        (173, 0x11),
        (174, 0x22),
        (175, 0x33), // its sequence number
    ];
    assert_eq!(set(&receive), [common(3), expected].concat());

    let send = to_send(0x00C0_FFEE, ConnectionService::Unreliable, 0x0044_5566).expect("it fits");
    assert_eq!(set(&send), [common(4), vec![(145, 0x44), (146, 0x55), (147, 0x66)]].concat());
    let reliable = to_send(0x00C0_FFEE, ConnectionService::Reliable, 0).expect("it fits");
    // A reliable connection repeats.
    assert_eq!((reliable[136], reliable[137], reliable[138]), (8 << 4, 7, 7 << 5));
}

#[test]
fn what_does_not_fit_is_refused() {
    let entries = create_qp(&QueuePairSettings { log_send: 16, ..PAIR });
    let what = "the number of send requests, as a power of two";
    assert_eq!(entries, Err(CommandError::Field { what, value: 16, bits: 4 }));
    assert!(create_qp(&QueuePairSettings { protection_domain: 1 << 24, ..PAIR }).is_err());
    assert!(create_qp(&QueuePairSettings { send_record_mode: 4, ..PAIR }).is_err());
    assert!(to_init(1 << 24, ConnectionService::Unreliable, 1, 0).is_err());
    assert!(to_send(1, ConnectionService::Unreliable, 1 << 24).is_err());
}

#[test]
fn an_answer_is_a_number_or_a_refusal() {
    let mut bytes = answer();
    bytes[9..12].copy_from_slice(&[1, 2, 3]);
    assert_eq!(made(&bytes), Ok(0x0001_0203));
    bytes[0] = 4;
    bytes[4..8].copy_from_slice(&[0xDE, 0xAD, 0xBE, 0xEF]);
    assert_eq!(made(&bytes), Err(CommandError::Refused { status: 4, syndrome: 0xDEAD_BEEF }));
}
