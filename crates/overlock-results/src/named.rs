/// Declares an enum of words without spaces, with all of them in order and each one's name.
#[macro_export]
macro_rules! named {
    ($(#[$about:meta])* $words:ident { $($(#[$of:meta])* $word:ident = $name:literal,)* }) => {
        $(#[$about])*
        pub enum $words { $($(#[$of])* $word,)* }

        impl $words {
            pub const ALL: [Self; [$($name),*].len()] = [$(Self::$word),*];

            pub const fn name(self) -> &'static str {
                match self { $(Self::$word => $name,)* }
            }
        }
    };
}
