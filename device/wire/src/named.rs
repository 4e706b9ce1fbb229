//! Enums of things that are counted.

/// Declares an enum whose variants have a name, for logs and metrics, and a meaning, in words: one row for each, so that the
/// three cannot drift apart. `ALL` has the variants in the order of their rows.
///
/// ```
/// ringcall_wire::named! {
///     /// What became of a packet.
///     pub enum Fate {
///         Taken, "taken", "packets taken";
///         Refused, "refused", "packets refused";
///     }
/// }
/// assert_eq!(Fate::ALL, [Fate::Taken, Fate::Refused]);
/// assert_eq!((Fate::Refused.name(), Fate::Refused.meaning()), ("refused", "packets refused"));
/// ```
#[macro_export]
macro_rules! named {
    (
        $(#[$attribute:meta])*
        pub enum $Name:ident {
            $($variant:ident $(= $value:literal)?, $name:literal, $meaning:literal;)*
        }
    ) => {
        $(#[$attribute])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum $Name {
            $(#[doc = concat!($meaning, ".")] $variant $(= $value)?,)*
        }

        impl $Name {
            /// Every one, in order.
            pub const ALL: &[Self] = &[$(Self::$variant,)*];

            /// Name for logs and metrics: lower case with underscores.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }

            /// Meaning, in words.
            #[must_use]
            pub const fn meaning(self) -> &'static str {
                match self { $(Self::$variant => $meaning,)* }
            }
        }
    };
}
