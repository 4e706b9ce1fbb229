//! UDP passes the suite in every form.

mod support;

use ringcall_transport::conformance::check;
use support::{Udp, V4, V6};

#[test]
fn threads_of_their_own() {
    check(&Udp { one_thread: false, ip: V4 }).unwrap();
}

#[test]
fn one_thread() {
    check(&Udp { one_thread: true, ip: V4 }).unwrap();
}

#[test]
fn ipv6() {
    if std::net::UdpSocket::bind((V6, 0)).is_ok() {
        check(&Udp { one_thread: true, ip: V6 }).unwrap();
    }
}
