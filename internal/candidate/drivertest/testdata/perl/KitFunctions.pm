# The kit's functions in Perl; functions.md says what each must do.
package KitFunctions;
use strict;
use warnings;
use JSON::PP ();

our $a_constant = 7;
my ($count, $second) = (0, 0);

sub echo { return $_[0] }
sub add { return $_[0] + $_[1] }
sub subtract { return $_[0] - $_[1] }
sub by_keyword { my (%given) = @_; return $given{minuend} - $given{subtrahend} }
sub append_to_list { my ($items) = @_; push @$items, 1; return $items }
sub append_by_keyword { my (%given) = @_; return append_to_list($given{items}) }
sub none { return undef }
sub raise_error { my ($message) = @_; die "$message\n" }
sub count_calls { return ++$count }
sub raise_on_second_call { die "the second call\n" if ++$second == 2; return $second }
sub stop { die "stop\n" }
sub floats { return [0.1, -1 / 9**9**9, 1e308, 5e-324] }
sub not_finite { my $huge = 9**9**9; return [$huge, -$huge, $huge - $huge] }
sub nested { return { a => [1, { b => undef }], c => JSON::PP::true() } }
sub unicode { return "gr\x{fc}\x{df}e \x{1f600} \0\x7f\x{2028} \"\\/" }
sub cycle { my $out = []; push @$out, $out; return $out }
sub shared { my $one = [1]; return [$one, $one] }
sub lone_surrogate { return chr 0xd800 }
sub an_object { return bless {}, 'KitFunctions::Box' }
sub long_text { return 'x' x $_[0] }
sub a_function { return \&echo }
sub print_noise { print STDOUT "$_[0]\n"; print STDERR "$_[0]\n"; return 'quiet' }
sub print_much { print STDOUT 'y' x $_[0]; return 'quiet' }
sub read_input { local $/; my $all = <STDIN>; return defined $all ? $all : '' }
sub child_writes { system('/bin/sh', '-c', '(printf x >&4; printf x >&3) 2>/dev/null'); return 'done' }
sub file_exists { return -f $_[0] ? JSON::PP::true() : JSON::PP::false() }
sub leave { exit 3 }
sub slow { sleep $_[0]; return 'slept' }
sub big_int { require Math::BigInt; return Math::BigInt->new(2)->bpow(70) }
sub random_number { return rand }

sub deep {
    my $out = [];
    $out = [$out] for 2 .. $_[0];
    return $out;
}

sub child_stays {
    my $child = fork;
    exec '/bin/sh', '-c', 'sleep 2' if defined $child && $child == 0;
    return 'done';
}

package KitFunctions::Box;

sub label { my ($class, $text) = @_; return "box $text" }

1;
