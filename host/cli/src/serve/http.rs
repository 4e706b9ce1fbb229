//! Pages over HTTP, with one request for each connection.
//!
//! hyper implements HTTP. One thread polls all connections in turn without blocking: a client that is silent, stops in
//! the middle or never ends delays neither other clients nor the end of the process, and no connection is kept for
//! longer than [`TIMEOUT`]. Bodies are not read.

use super::server::Server;
use anyhow::{Context as _, Result};
use hyper::body::Incoming;
use hyper::header::{ALLOW, CONTENT_TYPE, HeaderValue};
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper::server::conn::http1::{self, Connection};
use hyper::service::Service;
use hyper::{Method, Request, Response, StatusCode};
use std::convert::Infallible;
use std::fmt;
use std::future::Ready;
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

/// The most bytes of a request line and its headers.
const MOST_HEAD: usize = 8 << 10;
/// The most connections at a time; further clients wait until one ends.
const MOST_CLIENTS: usize = 256;
/// The longest time that a connection may take.
const TIMEOUT: Duration = Duration::from_secs(3);

pub(super) struct Page {
    /// The path, such as `/metrics`.
    pub(super) path: &'static str,
    pub(super) content_type: &'static str,
    pub(super) text: Text,
}

type Text = Box<dyn Fn() -> Reply + Send + Sync>;

/// The current content of a page.
pub(super) enum Reply {
    Ok(String),
    /// The service is not available, for this reason.
    Unavailable(&'static str),
    Failed(fmt::Error),
}

/// Serves `pages` at `address` on a thread of its own.
pub(super) fn start(name: &str, address: SocketAddr, pages: Vec<Page>) -> Result<Server> {
    let paths = || pages.iter().map(|page| page.path).collect::<Vec<_>>().join(", ");
    let listener =
        TcpListener::bind(address).with_context(|| format!("cannot serve {} on {address}", paths()))?;
    listener.set_nonblocking(true)?;
    let address = listener.local_addr()?;
    let pages = Pages(pages.into());
    let mut clients: Vec<Client> = Vec::new();
    Server::start(name, address, move || {
        while clients.len() < MOST_CLIENTS {
            // An error means that a caller has gone, or that descriptors are short for now.
            let Ok((stream, _)) = listener.accept() else { break };
            if stream.set_nonblocking(true).is_ok() {
                clients.push(Client::new(stream, &pages));
            }
        }
        // A client that has gone away needs no answer.
        clients.retain_mut(|client| client.turn().unwrap_or(false));
        clients.len()
    })
}

#[derive(Clone)]
struct Pages(Arc<[Page]>);

impl Pages {
    fn answer(&self, request: &Request<Incoming>) -> Response<String> {
        const TEXT: &str = "text/plain; charset=utf-8";
        let paths = || self.0.iter().map(|page| page.path).collect::<Vec<_>>().join(" or ");
        let (status, kind, text) = if request.method() != Method::GET {
            (StatusCode::METHOD_NOT_ALLOWED, TEXT, format!("try GET {}\n", paths()))
        } else if let Some(page) = self.0.iter().find(|page| page.path == request.uri().path()) {
            match (page.text)() {
                Reply::Ok(text) => (StatusCode::OK, page.content_type, text),
                Reply::Unavailable(why) => (StatusCode::SERVICE_UNAVAILABLE, TEXT, format!("{why}\n")),
                Reply::Failed(error) => (StatusCode::INTERNAL_SERVER_ERROR, TEXT, format!("{error}\n")),
            }
        } else {
            (StatusCode::NOT_FOUND, TEXT, format!("try {}\n", paths()))
        };
        let mut response = Response::new(text);
        *response.status_mut() = status;
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
        if status == StatusCode::METHOD_NOT_ALLOWED {
            response.headers_mut().insert(ALLOW, HeaderValue::from_static("GET"));
        }
        response
    }
}

impl Service<Request<Incoming>> for Pages {
    type Response = Response<String>;
    type Error = Infallible;
    type Future = Ready<Result<Response<String>, Infallible>>;

    fn call(&self, request: Request<Incoming>) -> Self::Future {
        std::future::ready(Ok(self.answer(&request)))
    }
}

/// A connection, which is polled until it ends or its time is up.
struct Client {
    /// The HTTP connection, until the answer is sent.
    http: Option<Connection<Socket, Pages>>,
    /// The stream, once the answer is sent.
    said: Option<TcpStream>,
    until: Instant,
}

impl Client {
    fn new(stream: TcpStream, pages: &Pages) -> Self {
        let http = http1::Builder::new()
            .keep_alive(false)
            .half_close(true)
            .title_case_headers(true)
            .max_buf_size(MOST_HEAD)
            .serve_connection(Socket(stream), pages.clone());
        Self { http: Some(http), said: None, until: Instant::now() + TIMEOUT }
    }

    /// Advances as far as possible without blocking. Returns whether the connection is still open.
    fn turn(&mut self) -> io::Result<bool> {
        if Instant::now() >= self.until {
            return Ok(false);
        }
        if let Some(mut http) = self.http.take() {
            // The next turn polls the connection again, so no waker is needed. Invalid requests have had their answers.
            if http.poll_without_shutdown(&mut Context::from_waker(Waker::noop())).is_pending() {
                self.http = Some(http);
                return Ok(true);
            }
            let Socket(stream) = http.into_parts().io;
            stream.shutdown(Shutdown::Write)?;
            self.said = Some(stream);
        }
        let Some(stream) = &mut self.said else { return Ok(false) };
        // Closing with unread bytes would reset the connection, and the answer might be lost.
        match ready(stream.read(&mut [0; 1024])) {
            Poll::Ready(n) => Ok(n? != 0),
            Poll::Pending => Ok(true),
        }
    }
}

struct Socket(TcpStream);

impl Read for Socket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        mut buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        let mut bytes = [0; 1024];
        let room = buffer.remaining().min(bytes.len());
        ready(self.0.read(&mut bytes[..room])).map_ok(|n| buffer.put_slice(&bytes[..n]))
    }
}

impl Write for Socket {
    fn poll_write(mut self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        ready(self.0.write(bytes))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(self.0.shutdown(Shutdown::Write))
    }
}

/// `Pending` in place of an error that says "would block".
fn ready<T>(result: io::Result<T>) -> Poll<io::Result<T>> {
    match result {
        Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => Poll::Pending,
        result => Poll::Ready(result),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ringcall::thread::STOP_CHECK_INTERVAL;
    use std::sync::mpsc::channel;

    /// Against hanging.
    const LONG: Duration = Duration::from_secs(20);
    const GET: &str = "GET /page HTTP/1.1\r\nHost: here\r\n\r\n";

    /// More bytes than a socket takes at once.
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

    /// Reads until the server has sent everything.
    fn hear(mut stream: TcpStream) -> String {
        let mut text = String::new();
        stream.read_to_string(&mut text).expect("an answer, and its end");
        text
    }

    fn is_whole(text: &str, bytes: usize) -> bool {
        let (head, page) = text.split_once("\r\n\r\n").expect("a head");
        let length = format!("\r\nContent-Length: {bytes}\r\n");
        let is_ok =
            ["HTTP/1.1", "HTTP/1.0"].iter().any(|version| head.starts_with(&format!("{version} 200 OK\r\n")));
        is_ok && head.contains(&length) && page.len() == bytes
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
        for (length, is_number) in
            [("5", true), ("1000000000000000000", true), ("99999999999999999999999", false), ("-1", false)]
        {
            let words = format!("GET /page HTTP/1.1\r\nContent-Length: {length}\r\n\r\n");
            // Some bytes arrive all the same.
            for words in [words.clone(), words + &"y".repeat(3000)] {
                let text = hear(say(&server, &words));
                match is_number {
                    true => assert!(is_whole(&text, 9), "{length}: {text}"),
                    false => assert!(text.starts_with("HTTP/1.1 400 "), "{length}: {text}"),
                }
            }
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
            // These clients never read the answer, or never send what they announced.
            clients.push(say(&server, "GET /page HTTP/1.1\r\nContent-Length: 1000000000000000000\r\n\r\n"));
        }
        stops(server);
        drop(clients);
    }
}
