//! Pages over HTTP, for any client that asks: one request and one answer a connection.
//!
//! One thread has every connection and waits for none of them. A client that is silent, stops in the middle
//! or never ends delays no other client, nor the end of the process. Bodies are not read: what a request says
//! of its length is not read.

use super::server::Server;
use anyhow::{Context, Result};
use std::fmt;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

/// Bytes of a request line and its headers at most.
const MOST_HEAD: usize = 8 << 10;
/// Connections at a time; more wait until one is over.
const MOST_CLIENTS: usize = 256;
/// How long a connection may take, from its beginning to its end.
const TIMEOUT: Duration = Duration::from_secs(3);

/// A page at one path.
pub(super) struct Page {
    /// Where, such as `/metrics`.
    pub(super) path: &'static str,
    pub(super) content_type: &'static str,
    pub(super) text: Text,
}

/// Makes a page.
type Text = Box<dyn Fn() -> Reply + Send>;

/// A page as it is now.
pub(super) enum Reply {
    /// Its text.
    Ok(String),
    /// That the service is not there to be used, and why.
    Unavailable(&'static str),
    Failed(fmt::Error),
}

/// Serves `pages` at `address`, on its own thread.
pub(super) fn start(name: &str, address: SocketAddr, pages: Vec<Page>) -> Result<Server> {
    let paths = || pages.iter().map(|page| page.path).collect::<Vec<_>>().join(", ");
    let listener =
        TcpListener::bind(address).with_context(|| format!("cannot serve {} on {address}", paths()))?;
    listener.set_nonblocking(true)?;
    let address = listener.local_addr()?;
    let mut clients: Vec<Client> = Vec::new();
    Server::start(name, address, move || {
        while clients.len() < MOST_CLIENTS {
            // An error is a caller who has gone, or a lack of descriptors that may pass.
            let Ok((stream, _)) = listener.accept() else { break };
            if stream.set_nonblocking(true).is_ok() {
                clients.push(Client::new(stream));
            }
        }
        // A client that has gone away needs no answer.
        clients.retain_mut(|client| client.turn(&pages).unwrap_or(false));
        clients.len()
    })
}

struct Client {
    stream: TcpStream,
    head: Vec<u8>,
    /// The reply, once the request is known.
    answer: Option<Vec<u8>>,
    sent: usize,
    until: Instant,
}

impl Client {
    fn new(stream: TcpStream) -> Self {
        Self { stream, head: Vec::new(), answer: None, sent: 0, until: Instant::now() + TIMEOUT }
    }

    /// Does what can be done without waiting; whether anything is left.
    fn turn(&mut self, pages: &[Page]) -> io::Result<bool> {
        if Instant::now() >= self.until {
            return Ok(false);
        }
        let mut bytes = [0; 1024];
        while self.answer.is_none() {
            let Some(n) = ready(self.stream.read(&mut bytes))? else { return Ok(true) };
            if n == 0 {
                return Ok(false);
            }
            self.head.extend_from_slice(&bytes[..n]);
            self.answer = respond(&self.head, pages);
        }
        let answer = self.answer.as_deref().unwrap_or_default();
        while self.sent < answer.len() {
            let Some(n) = ready(self.stream.write(&answer[self.sent..]))? else { return Ok(true) };
            self.sent += n;
            if self.sent == answer.len() {
                self.stream.shutdown(Shutdown::Write)?;
            }
        }
        // Closed with something unread, the connection would be reset, and the answer perhaps lost on its way.
        Ok(ready(self.stream.read(&mut bytes))? != Some(0))
    }
}

/// `None` where there is nothing to be had now.
fn ready<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => Ok(None),
        Err(error) => Err(error),
    }
}

/// The answer, when the request's head is there, or has become too long.
fn respond(head: &[u8], pages: &[Page]) -> Option<Vec<u8>> {
    const TEXT: &str = "text/plain; charset=utf-8";
    let has_ended = head.windows(4).any(|at| at == b"\r\n\r\n") || head.windows(2).any(|at| at == b"\n\n");
    if !has_ended {
        let too_long = head.len() >= MOST_HEAD;
        return too_long.then(|| answer("431 Request Header Fields Too Large", TEXT, "too long\n"));
    }
    let line = head.split(|&byte| byte == b'\n').next().unwrap_or_default();
    let line = String::from_utf8_lossy(line);
    let words: Vec<&str> = line.split_whitespace().collect();
    let paths = || pages.iter().map(|page| page.path).collect::<Vec<_>>().join(" or ");
    Some(match words[..] {
        ["GET", target, version] if version.starts_with("HTTP/1.") => {
            let path = target.split('?').next();
            let Some(page) = pages.iter().find(|page| path == Some(page.path)) else {
                return Some(answer("404 Not Found", TEXT, &format!("try {}\n", paths())));
            };
            match (page.text)() {
                Reply::Ok(text) => answer("200 OK", page.content_type, &text),
                Reply::Unavailable(why) => answer("503 Service Unavailable", TEXT, &format!("{why}\n")),
                Reply::Failed(error) => answer("500 Internal Server Error", TEXT, &format!("{error}\n")),
            }
        }
        [_, _, version] if version.starts_with("HTTP/1.") => {
            answer("405 Method Not Allowed", TEXT, &format!("try GET {}\n", paths()))
        }
        _ => answer("400 Bad Request", TEXT, "this speaks HTTP/1.1\n"),
    })
}

fn answer(status: &str, content_type: &str, text: &str) -> Vec<u8> {
    let allow = if status.starts_with("405") { "Allow: GET\r\n" } else { "" };
    let bytes = text.len();
    format!(
        "HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\nContent-Length: {bytes}\r\n{allow}Connection: close\r\n\r\n{text}"
    )
    .into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;
    use ringcall::thread::STOP_CHECK_INTERVAL;
    use std::sync::mpsc::channel;

    /// Against hanging.
    const LONG: Duration = Duration::from_secs(20);
    const GET: &str = "GET /page HTTP/1.1\r\nHost: here\r\n\r\n";

    /// More than a socket takes at once.
    const LARGE: usize = 1 << 22;

    fn server(bytes: usize) -> Server {
        let text = Box::new(move || Reply::Ok("x".repeat(bytes)));
        let page = Page { path: "/page", content_type: "text/plain", text };
        let text = Box::new(|| Reply::Unavailable("it ends"));
        let ready = Page { path: "/ready", content_type: "text/plain", text };
        start("page", "127.0.0.1:0".parse().expect("an address"), vec![page, ready]).expect("a listener")
    }

    fn connect(server: &Server) -> TcpStream {
        let stream = TcpStream::connect(server.address()).expect("listening");
        stream.set_read_timeout(Some(LONG)).expect("a timeout");
        stream
    }

    fn say(server: &Server, words: &str) -> TcpStream {
        let mut stream = connect(server);
        stream.write_all(words.as_bytes()).expect("sent");
        stream
    }

    /// What comes until the server has said everything.
    fn hear(mut stream: TcpStream) -> String {
        let mut text = String::new();
        stream.read_to_string(&mut text).expect("an answer, and its end");
        text
    }

    fn is_whole(text: &str, bytes: usize) -> bool {
        let (head, page) = text.split_once("\r\n\r\n").expect("a head");
        let length = format!("\r\nContent-Length: {bytes}\r\n");
        head.starts_with("HTTP/1.1 200 OK\r\n") && head.contains(&length) && page.len() == bytes
    }

    fn stops(server: Server) {
        let (tell, told) = channel();
        std::thread::spawn(move || {
            server.stop();
            let _ = tell.send(());
        });
        told.recv_timeout(LONG).expect("it ends");
    }

    #[test]
    fn the_page_is_served_and_nothing_else() {
        let server = server(LARGE);
        assert!(is_whole(&hear(say(&server, GET)), LARGE));
        assert!(is_whole(&hear(say(&server, "GET /page?x=1 HTTP/1.0\n\n")), LARGE));
        let (first, rest) = GET.split_at(9);
        let mut parts = say(&server, first);
        std::thread::sleep(STOP_CHECK_INTERVAL);
        parts.write_all(rest.as_bytes()).expect("sent");
        assert!(is_whole(&hear(parts), LARGE));
        for (words, status) in [
            ("GET / HTTP/1.1\r\n\r\n", "404"),
            ("GET /ready HTTP/1.1\r\n\r\n", "503"),
            ("GET /pages HTTP/1.1\r\n\r\n", "404"),
            ("POST /page HTTP/1.1\r\n\r\n", "405"),
            ("GET /page\r\n\r\n", "400"),
            ("\0\u{7}\n\n", "400"),
        ] {
            let text = hear(say(&server, words));
            assert!(text.starts_with(&format!("HTTP/1.1 {status} ")), "{words:?}: {text}");
        }
        stops(server);
    }

    #[test]
    fn a_body_is_not_waited_for() {
        let server = server(9);
        for length in ["5", "1000000000000000000", "99999999999999999999999", "-1"] {
            let words = format!("GET /page HTTP/1.1\r\nContent-Length: {length}\r\n\r\n");
            assert!(is_whole(&hear(say(&server, &words)), 9), "{length}");
            // Some of it comes all the same.
            assert!(is_whole(&hear(say(&server, &format!("{words}{}", "y".repeat(3000)))), 9), "{length}");
        }
        stops(server);
    }

    #[test]
    fn a_head_without_end_is_refused() {
        let server = server(9);
        let words = format!("GET /page HTTP/1.1\r\nX: {}", "z".repeat(MOST_HEAD));
        assert!(hear(say(&server, &words)).starts_with("HTTP/1.1 431 "));
        stops(server);
    }

    #[test]
    fn who_says_nothing_or_half_keeps_nobody_waiting_and_is_left() {
        let server = server(9);
        let silent =
            [connect(&server), say(&server, "GET /pa"), say(&server, "GET /page HTTP/1.1\r\nHost: h")];
        let clients: Vec<TcpStream> = (0..100).map(|_| say(&server, GET)).collect();
        assert!(clients.into_iter().all(|client| is_whole(&hear(client), 9)));
        for client in silent {
            assert_eq!(hear(client), "", "its time is up");
        }
        stops(server);
    }

    #[test]
    fn the_end_waits_for_nobody() {
        let server = server(LARGE);
        let mut clients = vec![connect(&server), say(&server, "GET /pa")];
        for _ in 0..100 {
            // They never read what they asked for, nor send what they promised.
            clients.push(say(&server, "GET /page HTTP/1.1\r\nContent-Length: 1000000000000000000\r\n\r\n"));
        }
        stops(server);
        drop(clients);
    }
}
