//! A real client at the other end of a real socket, which takes little at a time.

use std::collections::VecDeque;
use std::io::{IoSlice, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr};
use std::thread::JoinHandle;
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};
use rustls::pki_types::ServerName;
use rustls::{ClientConnection, StreamOwned};
use tokio::net::TcpSocket;

use super::*;
use crate::tls::shake_hands;
use tidewire_fixtures::tls::configs;

/// Small, so that the socket often refuses: the system makes a few KiB of it.
const BUFFER_BYTES: u32 = 2 << 10;

type Client = StreamOwned<ClientConnection, std::net::TcpStream>;

/// A connection whose client is a thread of its own.
async fn connect<T: Send + 'static>(
    client: impl FnOnce(Client) -> T + Send + 'static,
) -> (Secure, JoinHandle<T>) {
    let socket = TcpSocket::new_v4().expect("a socket");
    socket.set_send_buffer_size(BUFFER_BYTES).expect("a small buffer");
    socket.bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).expect("a port");
    let listener = socket.listen(1).expect("a listener");
    let address = listener.local_addr().expect("an address");
    let (server, config) = configs();
    let client = std::thread::spawn(move || {
        let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None);
        let socket = socket.expect("a socket");
        socket.set_recv_buffer_size(BUFFER_BYTES as usize).expect("a small buffer");
        socket.connect(&address.into()).expect("a connection");
        // A test that waits for what does not come is to end.
        socket.set_read_timeout(Some(Duration::from_secs(60))).expect("a timeout");
        let name = ServerName::try_from("localhost").expect("a name");
        let tls = ClientConnection::new(config, name).expect("a client");
        client(StreamOwned::new(tls, socket.into()))
    });
    let (stream, _) = listener.accept().await.expect("a connection");
    (shake_hands(stream, server).await.expect("a handshake"), client)
}

fn read_all(mut client: Client) -> Vec<u8> {
    let mut received = Vec::new();
    // It says hello, for the handshake to begin.
    client.flush().expect("a handshake");
    client.read_to_end(&mut received).expect("all, and a farewell");
    received
}

/// One that writes as the hub does: it may take back what it has not begun, and put something urgent
/// right behind what it has.
struct Writer {
    waiting: VecDeque<Vec<u8>>,
    begun: bool,
    reported: Vec<u8>,
    refusals: usize,
}

impl Writer {
    async fn write_all(&mut self, line: &Secure, random: &mut StdRng) {
        while !self.waiting.is_empty() {
            let pieces: Vec<IoSlice<'_>> =
                self.waiting.iter().take(PIECES_MAX).map(|piece| IoSlice::new(piece)).collect();
            match line.try_write_vectored(&pieces) {
                Ok(count) => self.advance(count),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.refusals += 1;
                    self.reconsider(random);
                    line.writable().await.expect("a socket");
                }
                Err(error) => panic!("{error}"),
            }
        }
    }

    fn advance(&mut self, mut count: usize) {
        assert!(count > 0, "nothing was taken, and it was not said");
        while count > 0 {
            let first = self.waiting.front_mut().expect("as much as was offered");
            let part = first.len().min(count);
            self.reported.extend(first.drain(..part));
            count -= part;
            self.begun = !first.is_empty();
            if first.is_empty() {
                self.waiting.pop_front();
            }
        }
    }

    fn reconsider(&mut self, random: &mut StdRng) {
        let free = usize::from(self.begun);
        if random.random_ratio(1, 4) && self.waiting.len() > free {
            self.waiting.remove(free);
        }
        if random.random_ratio(1, 4) {
            self.waiting.insert(free, b"urgent".to_vec());
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_reported_as_written_arrives_whatever_is_taken_back() {
    let mut random = StdRng::seed_from_u64(7);
    let (line, client) = connect(read_all).await;
    let mut writer =
        Writer { waiting: VecDeque::new(), begun: false, reported: Vec::new(), refusals: 0 };
    for _ in 0..60 {
        for _ in 0..random.random_range(1..40) {
            let longest = *[3, 100, 20_000].get(random.random_range(0..3)).expect("one of three");
            let mut piece = vec![0; random.random_range(2..longest)];
            random.fill(&mut piece[..]);
            writer.waiting.push_back(piece);
        }
        writer.write_all(&line, &mut random).await;
    }
    assert!(writer.refusals > 10, "the socket took nearly everything");
    // Not by dropping the line: a full socket has no room for a farewell, and dropping does not wait.
    std::future::poll_fn(|cx| line.poll_shutdown(cx)).await.expect("a farewell");
    let received = client.join().expect("a client");
    assert_eq!(received.len(), writer.reported.len());
    assert!(received == writer.reported, "the bytes differ");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_reported_as_written_needs_no_further_call() {
    // Whole records, so that the last of them does not fit into the socket either.
    const BYTES: usize = 64 * RECORD_BYTES_MAX;
    let (line, client) = connect(|mut client| {
        let mut received = vec![0; BYTES];
        client.read_exact(&mut received).expect("all of it, before the farewell");
        received
    })
    .await;
    let sent: Vec<u8> = (0..BYTES).map(|n| n.to_le_bytes()[0]).collect();
    let mut rest = &sent[..];
    while !rest.is_empty() {
        match line.try_write(rest) {
            Ok(count) => rest = &rest[count..],
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                line.writable().await.expect("a socket");
            }
            Err(error) => panic!("{error}"),
        }
    }
    let received = tokio::task::spawn_blocking(|| client.join()).await.expect("a thread");
    assert!(received.expect("a client") == sent);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_came_with_the_handshake_is_readable_at_once() {
    let (line, client) = connect(|mut client| {
        // Written before anything is read, so it goes out with the last words of the handshake.
        client.write_all(b"first").expect("a request");
        client.flush().expect("a handshake");
        let mut answer = [0; 6];
        client.read_exact(&mut answer).expect("an answer");
        answer
    })
    .await;
    let mut buffer = [0; 2];
    let mut read = Vec::new();
    while read.len() < 5 {
        line.readable().await.expect("a socket");
        match line.try_read(&mut buffer) {
            Ok(count) => read.extend_from_slice(&buffer[..count]),
            Err(error) => assert_eq!(error.kind(), io::ErrorKind::WouldBlock),
        }
    }
    assert_eq!(read, b"first");
    assert_eq!(line.try_write(b"answer").expect("room for it"), 6);
    assert_eq!(&client.join().expect("a client"), b"answer");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_may_change_its_keys() {
    let (line, client) = connect(|mut client| {
        for _ in 0..20 {
            client.write_all(b"ping").expect("a message");
            client.conn.refresh_traffic_keys().expect("new keys");
            client.flush().expect("a socket");
            let mut answer = [0; 4];
            client.read_exact(&mut answer).expect("an answer");
            assert_eq!(&answer, b"pong");
        }
    })
    .await;
    let mut buffer = [0; 64];
    let mut read = 0;
    loop {
        line.readable().await.expect("a socket");
        match line.try_read(&mut buffer) {
            Ok(0) => break,
            Ok(count) => {
                read += count;
                assert_eq!(line.try_write(b"pong").expect("room for it"), 4);
            }
            Err(error) => assert_eq!(error.kind(), io::ErrorKind::WouldBlock),
        }
    }
    assert_eq!(read, 80);
    client.join().expect("a client");
}

#[test]
fn of_each_piece_but_the_first_a_record_has_two_bytes_or_none() {
    let sizes = |lengths: &[usize]| {
        let pieces: Vec<Vec<u8>> = lengths.iter().map(|length| vec![0; *length]).collect();
        let slices: Vec<IoSlice<'_>> = pieces.iter().map(|piece| IoSlice::new(piece)).collect();
        let mut record = [IoSlice::new(&[]); PIECES_MAX];
        let count = cut(&slices, &mut record);
        record[..count].iter().map(|piece| piece.len()).collect::<Vec<usize>>()
    };
    const MAX: usize = RECORD_BYTES_MAX;
    assert_eq!(sizes(&[10, 20]), [10, 20]);
    assert_eq!(sizes(&[1, 20]), [1, 20]);
    assert_eq!(sizes(&[0, 20]), [20]);
    assert_eq!(sizes(&[MAX + 5, 20]), [MAX]);
    assert_eq!(sizes(&[MAX - 2, 20]), [MAX - 2, 2]);
    assert_eq!(sizes(&[MAX - 1, 20]), [MAX - 1]);
    assert_eq!(sizes(&[20, 1, 20]), [20]);
    assert_eq!(sizes(&[2; 100]), [2; PIECES_MAX]);
    assert_eq!(sizes(&[]), [0; 0]);
}
