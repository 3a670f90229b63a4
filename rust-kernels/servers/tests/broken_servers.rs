//! The proof, put to the proof: servers with one fault each do not get through it, and what is wrong is said.

use std::convert::Infallible;
use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;

use servers::{Echo, LENGTH, Load, Protocol, Serve, Tally, Variant};
use zero_cost_loop::Steps;

/// Serves one connection after the other, until it has gone.
fn one_by_one(
    listener: &TcpListener,
    mut serve: impl FnMut(&mut TcpStream, &mut Echo) -> io::Result<()>,
    (work, tally): (Steps, &Arc<Tally>),
) -> io::Result<Infallible> {
    loop {
        let mut stream = listener.accept()?.0;
        let mut echo = Echo::new(work, tally);
        while serve(&mut stream, &mut echo).is_ok() {}
    }
}

/// Reads, which fails at the end.
fn read(stream: &mut TcpStream, echo: &mut Echo) -> io::Result<()> {
    match stream.read(echo.spare_capacity())? {
        0 => return Err(io::ErrorKind::UnexpectedEof.into()),
        length => echo.take(length),
    }
    Ok(())
}

fn sound(listener: TcpListener, work: Steps, tally: &Arc<Tally>) -> io::Result<Infallible> {
    let serve = |stream: &mut TcpStream, echo: &mut Echo| {
        read(stream, echo)?;
        stream.write_all(echo.answers())?;
        echo.mark_all_written();
        Ok(())
    };
    one_by_one(&listener, serve, (work, tally))
}

/// The fifth answer has a wrong byte at its end.
fn one_wrong_byte(listener: TcpListener, work: Steps, tally: &Arc<Tally>) -> io::Result<Infallible> {
    let mut answers = 0;
    let serve = move |stream: &mut TcpStream, echo: &mut Echo| {
        read(stream, echo)?;
        let mut answer = echo.answers().to_vec();
        answers += 1;
        if answers == 5 {
            answer[LENGTH - 1] ^= 1;
        }
        stream.write_all(&answer)?;
        echo.mark_all_written();
        Ok(())
    };
    one_by_one(&listener, serve, (work, tally))
}

/// Answers are one byte too long.
fn too_long(listener: TcpListener, work: Steps, tally: &Arc<Tally>) -> io::Result<Infallible> {
    let serve = |stream: &mut TcpStream, echo: &mut Echo| {
        read(stream, echo)?;
        stream.write_all(&[echo.answers(), b"."].concat())?;
        echo.mark_all_written();
        Ok(())
    };
    one_by_one(&listener, serve, (work, tally))
}

/// Echoes bytes without counting them as requests, whose work is not done either.
fn without_work(listener: TcpListener, work: Steps, tally: &Arc<Tally>) -> io::Result<Infallible> {
    let serve = |stream: &mut TcpStream, _: &mut Echo| {
        let mut bytes = [0; LENGTH];
        stream.read_exact(&mut bytes)?;
        stream.write_all(&bytes)
    };
    one_by_one(&listener, serve, (work, tally))
}

/// Cannot go on after some connections.
fn gives_up(listener: TcpListener, _: Steps, _: &Arc<Tally>) -> io::Result<Infallible> {
    let _open: Vec<TcpStream> = (0..3).map(|_| Ok(listener.accept()?.0)).collect::<io::Result<_>>()?;
    Err(io::Error::other("no more threads"))
}

/// What the proof says of a server with one connection, or with so many.
fn proof(serve: Serve, connections: u64) -> Result<(), String> {
    let load = Load { connections, active: connections, steps: 1 };
    Variant { name: "broken", serve }.prove(load).map_err(|wrong| wrong.to_string())
}

#[test]
fn a_sound_server_is_proven() {
    proof(sound, 1).unwrap();
}

#[test]
fn a_wrong_answer_is_found_out() {
    for serve in [one_wrong_byte, too_long] as [Serve; 2] {
        let wrong = proof(serve, 1).unwrap_err();
        assert!(wrong.contains("was given another answer"), "{wrong}");
    }
}

#[test]
fn requests_that_were_not_counted_are_missed() {
    let wrong = proof(without_work, 1).unwrap_err();
    assert!(wrong.contains("requests: 11 expected, 0 counted"), "{wrong}");
    assert!(wrong.contains(&format!("bytes: {} expected, 0 counted", 11 * LENGTH)), "{wrong}");
}

#[test]
fn a_server_that_gives_up_says_why() {
    let wrong = proof(gives_up, 5).unwrap_err();
    assert!(wrong.contains("the server: no more threads"), "{wrong}");
}

#[test]
fn too_few_files_are_told_with_the_remedy() {
    let wrong = proof(sound, 1 << 40).unwrap_err();
    assert!(wrong.contains("raise `ulimit -n` to 1099511627876"), "{wrong}");
}
