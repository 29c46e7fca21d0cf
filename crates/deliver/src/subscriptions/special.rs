//! Addresses with a special purpose, as the registries of IANA list them: where no webhook goes.
//!
//! All entries of the two special-purpose registries are here, the few that are reachable from anywhere
//! among them, because none of those is a host that receives webhooks; and besides them multicast, and
//! what the registries of address space keep reserved. Of IPv6 only `2000::/3` is given out at all.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// A network: its first address, and how many bits of it count.
type V4 = ([u8; 4], u32);
type V6 = ([u16; 8], u32);

/// <https://www.iana.org/assignments/iana-ipv4-special-registry>
const V4_SPECIAL: &[V4] = &[
    // "This network"
    ([0, 0, 0, 0], 8),
    // Private use
    ([10, 0, 0, 0], 8),
    // Shared by carriers
    ([100, 64, 0, 0], 10),
    // Loopback
    ([127, 0, 0, 0], 8),
    // Link local, and the clouds' metadata
    ([169, 254, 0, 0], 16),
    // Private use
    ([172, 16, 0, 0], 12),
    // Protocol assignments, with DS-Lite, PCP, TURN, NAT64 discovery and the dummy address
    ([192, 0, 0, 0], 24),
    // Documentation
    ([192, 0, 2, 0], 24),
    // AS112
    ([192, 31, 196, 0], 24),
    // AMT
    ([192, 52, 193, 0], 24),
    // Relays of 6to4
    ([192, 88, 99, 0], 24),
    // Private use
    ([192, 168, 0, 0], 16),
    // AS112, by delegation
    ([192, 175, 48, 0], 24),
    // Benchmarking
    ([198, 18, 0, 0], 15),
    // Documentation
    ([198, 51, 100, 0], 24),
    ([203, 0, 113, 0], 24),
    // Multicast
    ([224, 0, 0, 0], 4),
    // Reserved, with broadcast
    ([240, 0, 0, 0], 4),
];

/// <https://www.iana.org/assignments/iana-ipv6-special-registry>, of what lies in `2000::/3`.
const V6_SPECIAL: &[V6] = &[
    // Protocol assignments, with Teredo (2001::/32), PCP, TURN, AMT, AS112, ORCHID and drones
    ([0x2001, 0, 0, 0, 0, 0, 0, 0], 23),
    // Documentation
    ([0x2001, 0xdb8, 0, 0, 0, 0, 0, 0], 32),
    // 6to4: an IPv4 address is in it, and a relay of whoever likes would bring it there
    ([0x2002, 0, 0, 0, 0, 0, 0, 0], 16),
    // AS112, by delegation
    ([0x2620, 0x4f, 0x8000, 0, 0, 0, 0, 0], 48),
    // Documentation
    ([0x3fff, 0, 0, 0, 0, 0, 0, 0], 20),
];

/// What has been given out to be reached from anywhere. All else is special: unspecified, loopback,
/// compatible (`::/96`), discard (`100::/64`), translation of a local network (`64:ff9b:1::/48`),
/// segments of routes (`5f00::/16`), unique local, link local, site local, multicast.
const V6_GIVEN_OUT: V6 = ([0x2000, 0, 0, 0, 0, 0, 0, 0], 3);

/// An IPv4 address is in the last 32 bits of these, and is what is reached: mapped ones are the
/// system's own notation, and translated ones are what resolvers in networks without IPv4 give for
/// hosts that have nothing else.
const V4_INSIDE: &[V6] =
    &[([0, 0, 0, 0, 0, 0xffff, 0, 0], 96), ([0x64, 0xff9b, 0, 0, 0, 0, 0, 0], 96)];

/// Whether an address belongs to the public Internet, and to a host of it.
pub(super) fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => !V4_SPECIAL.iter().any(|network| in_v4(*network, v4)),
        IpAddr::V6(v6) if V4_INSIDE.iter().any(|network| in_v6(*network, v6)) => {
            let [.., a, b, c, d] = v6.octets();
            is_public(IpAddr::V4(Ipv4Addr::new(a, b, c, d)))
        }
        IpAddr::V6(v6) => {
            in_v6(V6_GIVEN_OUT, v6) && !V6_SPECIAL.iter().any(|network| in_v6(*network, v6))
        }
    }
}

fn in_v4((first, bits): V4, address: Ipv4Addr) -> bool {
    let differs = Ipv4Addr::from(first).to_bits() ^ address.to_bits();
    differs.leading_zeros() >= bits
}

fn in_v6((first, bits): V6, address: Ipv6Addr) -> bool {
    let differs = Ipv6Addr::from(first).to_bits() ^ address.to_bits();
    differs.leading_zeros() >= bits
}

#[cfg(test)]
mod tests {
    use super::*;

    fn public(address: &str) -> bool {
        is_public(address.parse().unwrap_or_else(|_| panic!("{address} is no address")))
    }

    /// Each entry of the registries by its first and its last address.
    const SPECIAL: &[(&str, &str, &str)] = &[
        ("0.0.0.0/8", "0.0.0.0", "0.255.255.255"),
        ("10.0.0.0/8", "10.0.0.0", "10.255.255.255"),
        ("100.64.0.0/10", "100.64.0.0", "100.127.255.255"),
        ("127.0.0.0/8", "127.0.0.0", "127.255.255.255"),
        ("169.254.0.0/16", "169.254.0.0", "169.254.255.255"),
        ("172.16.0.0/12", "172.16.0.0", "172.31.255.255"),
        ("192.0.0.0/24", "192.0.0.0", "192.0.0.255"),
        ("192.0.2.0/24", "192.0.2.0", "192.0.2.255"),
        ("192.31.196.0/24", "192.31.196.0", "192.31.196.255"),
        ("192.52.193.0/24", "192.52.193.0", "192.52.193.255"),
        ("192.88.99.0/24", "192.88.99.0", "192.88.99.255"),
        ("192.168.0.0/16", "192.168.0.0", "192.168.255.255"),
        ("192.175.48.0/24", "192.175.48.0", "192.175.48.255"),
        ("198.18.0.0/15", "198.18.0.0", "198.19.255.255"),
        ("198.51.100.0/24", "198.51.100.0", "198.51.100.255"),
        ("203.0.113.0/24", "203.0.113.0", "203.0.113.255"),
        ("224.0.0.0/4", "224.0.0.0", "239.255.255.255"),
        ("240.0.0.0/4", "240.0.0.0", "255.255.255.255"),
        ("::/128", "::", "::"),
        ("::1/128", "::1", "::1"),
        ("::/96", "::93.184.216.34", "::ffff:ffff"),
        ("64:ff9b:1::/48", "64:ff9b:1::", "64:ff9b:1:ffff:ffff:ffff:ffff:ffff"),
        ("100::/64", "100::", "100::ffff:ffff:ffff:ffff"),
        ("100:0:0:1::/64", "100:0:0:1::", "100:0:0:1:ffff:ffff:ffff:ffff"),
        ("2001::/23", "2001::", "2001:1ff:ffff:ffff:ffff:ffff:ffff:ffff"),
        ("2001::/32", "2001::", "2001:0:ffff:ffff:ffff:ffff:ffff:ffff"),
        ("2001:1::1/128", "2001:1::1", "2001:1::3"),
        ("2001:2::/48", "2001:2::", "2001:2:0:ffff:ffff:ffff:ffff:ffff"),
        ("2001:3::/32", "2001:3::", "2001:3:ffff:ffff:ffff:ffff:ffff:ffff"),
        ("2001:4:112::/48", "2001:4:112::", "2001:4:112:ffff:ffff:ffff:ffff:ffff"),
        ("2001:10::/28", "2001:10::", "2001:1f:ffff:ffff:ffff:ffff:ffff:ffff"),
        ("2001:20::/28", "2001:20::", "2001:2f:ffff:ffff:ffff:ffff:ffff:ffff"),
        ("2001:30::/28", "2001:30::", "2001:3f:ffff:ffff:ffff:ffff:ffff:ffff"),
        ("2001:db8::/32", "2001:db8::", "2001:db8:ffff:ffff:ffff:ffff:ffff:ffff"),
        ("2002::/16", "2002::", "2002:ffff:ffff:ffff:ffff:ffff:ffff:ffff"),
        ("2620:4f:8000::/48", "2620:4f:8000::", "2620:4f:8000:ffff:ffff:ffff:ffff:ffff"),
        ("3fff::/20", "3fff::", "3fff:fff:ffff:ffff:ffff:ffff:ffff:ffff"),
        ("5f00::/16", "5f00::", "5f00:ffff:ffff:ffff:ffff:ffff:ffff:ffff"),
        ("fc00::/7", "fc00::", "fdff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"),
        ("fe80::/10", "fe80::", "febf:ffff:ffff:ffff:ffff:ffff:ffff:ffff"),
        ("fec0::/10", "fec0::", "feff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"),
        ("ff00::/8", "ff00::", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"),
        // Not given out.
        ("200::/7", "200::", "3ff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"),
        ("4000::/2", "4000::", "7fff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"),
        ("8000::/2", "8000::", "bfff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"),
        // With an address of IPv4 in it that is special.
        ("::ffff:10.0.0.0/104", "::ffff:10.0.0.0", "::ffff:10.255.255.255"),
        ("::ffff:127.0.0.0/104", "::ffff:127.0.0.0", "::ffff:127.255.255.255"),
        ("64:ff9b::169.254.0.0/112", "64:ff9b::169.254.0.0", "64:ff9b::169.254.255.255"),
        ("64:ff9b::192.168.0.0/112", "64:ff9b::192.168.0.0", "64:ff9b::192.168.255.255"),
        // 6to4 and Teredo, whatever is in them.
        ("2002:5db8:d822::/48", "2002:5db8:d822::", "2002:5db8:d822::1"),
        ("2001:0:5db8:d822::/64", "2001:0:5db8:d822::", "2001:0:5db8:d822::1"),
    ];

    #[test]
    fn no_special_purpose_is_public() {
        for (network, first, last) in SPECIAL {
            assert!(!public(first), "{first} of {network}");
            assert!(!public(last), "{last} of {network}");
        }
    }

    /// What lies beside the special networks is anyone's, and what is translated is what it is
    /// translated to.
    #[test]
    fn their_neighbours_are_public() {
        for address in [
            "1.0.0.0",
            "9.255.255.255",
            "11.0.0.0",
            "100.63.255.255",
            "100.128.0.0",
            "126.255.255.255",
            "128.0.0.0",
            "169.253.255.255",
            "169.255.0.0",
            "172.15.255.255",
            "172.32.0.0",
            "192.0.1.0",
            "192.0.3.0",
            "192.31.195.255",
            "192.31.197.0",
            "192.52.192.255",
            "192.52.194.0",
            "192.88.98.255",
            "192.88.100.0",
            "192.167.255.255",
            "192.169.0.0",
            "192.175.47.255",
            "192.175.49.0",
            "198.17.255.255",
            "198.20.0.0",
            "198.51.99.255",
            "198.51.101.0",
            "203.0.112.255",
            "203.0.114.0",
            "223.255.255.255",
            "2000::",
            "2001:200::",
            "2001:db7:ffff::1",
            "2001:db9::",
            "2003::",
            "2606:2800::1",
            "2620:4f:7fff::1",
            "2620:4f:8001::",
            "3ffe::1",
            "3fff:1000::",
            "::ffff:93.184.216.34",
            "64:ff9b::93.184.216.34",
        ] {
            assert!(public(address), "{address}");
        }
    }
}
