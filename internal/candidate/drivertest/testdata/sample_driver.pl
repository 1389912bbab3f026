#!/usr/bin/perl
# A sample driver: Perl code under docs/candidate-protocol.md. It needs Perl 5.14
# with what Perl comes with.
#
# Entries: "A.B:name" is the function A::B::name of the file A/B.pm, and
# "A.B:C.name" the method name of the class A::B::C. By keyword: the function is
# called with a flat list of keys and values.
use strict;
use warnings;
use B ();
use Fcntl qw(F_SETFD FD_CLOEXEC SEEK_SET);
use JSON::PP ();
use POSIX ();

use constant { MAX_FRAME => 8 << 20, MAX_DEPTH => 64, MAX_SHOWN => 4096, MAX_OUTPUT => 1 << 20, SMALL => 2**53 };

my ($tree, $library) = @ARGV;
my $json = JSON::PP->new->allow_nonref->allow_bignum;
my ($base, $entry);
my %verbs = (open => \&verb_open, load => \&verb_load, entry => \&verb_entry, row => \&verb_row, run => \&verb_run);

open(my $requests, '<&=', 3) or die "no descriptor 3: $!\n";
open(my $replies,  '>&=', 4) or die "no descriptor 4: $!\n";
fcntl($_, F_SETFD, FD_CLOEXEC) or die "close descriptors on exec: $!\n" for $requests, $replies;
serve();
exit 0;

sub serve {
    while (defined(my $frame = read_frame())) {
        my ($id, $question) = (substr($frame, 7, 16), substr($frame, 29, -1));
        write_frame(qq({"id":"$id","r":) . answer($question) . '}');
    }
    return;
}

# ---- frames

sub read_frame {
    my $head = read_exactly(4);
    return defined $head ? read_exactly(unpack 'N', $head) : undef;
}

sub read_exactly {
    my ($wanted) = @_;
    my $text = '';
    while (length $text < $wanted) {
        my $n = sysread $requests, $text, $wanted - length $text, length $text;
        return undef if !$n;
    }
    return $text;
}

sub write_frame {
    my $frame = pack('N', length $_[0]) . $_[0];
    my $done = 0;
    while ($done < length $frame) {
        my $n = syswrite $replies, $frame, length($frame) - $done, $done;
        exit 1 if !$n;
        $done += $n;
    }
    return;
}

# ---- replies

# A verb returns a reply, or dies: with one of ours (an array), or with what the
# pushed code died with.
sub answer {
    my ($question) = @_;
    my $reply = eval { do_it($json->decode($question)) };
    return $reply if defined $reply;
    return $@->[0] if ref $@ eq 'SampleDriver::Reply';
    return '["raise",' . encode_string(substr("$@", 0, 2000)) . ',[],[]]';
}

sub do_it {
    my ($verb, @rest) = @{ $_[0] };
    my $do = $verbs{$verb} or bad("no verb $verb");
    bad('objects are not shared with this driver') if grep { @$_ } splice @rest, 0, 3;
    my $reply = $do->(@rest);
    bad('more than 8 MiB in one reply') if length $reply > MAX_FRAME - 64;
    return $reply;
}

sub ok { return '["ok",' . $_[0] . ',[],[]]' }
sub give { die bless [$_[0]], 'SampleDriver::Reply' }
sub bad { give('["bad",' . encode_string($_[0]) . ']') }

sub show {
    my ($text, $shown) = @_;
    $shown =~ s/\Q$base\E\///g;
    substr($shown, 1000, length($shown) - 3000) = "\n...\n" if length $shown > 3500;
    give('["fail",' . encode_string($text) . ',' . encode_string($shown) . ']');
}

# ---- verbs

sub verb_open {
    my ($root, $sources, $leftovers) = @_;
    $base = length $root ? "$tree/$root" : $tree;
    chdir $base or bad("change to the tree: $!");
    unshift @INC, map { $_ eq '.' ? $base : "$base/$_" } @$sources;
    push @INC, "$library/lib/perl5", $library if defined $library;
    for my $path (@$leftovers) {
        open my $made, '>>', $path or next;
    }
    return ok('null');
}

# load_module returns the package of a module, or dies with what there is to show.
sub load_module {
    my ($module) = @_;
    $module =~ /\A\w+(?:\.\w+)*\z/a or die "$module is no module\n";
    my @parts = split /\./, $module;
    require(join('/', @parts) . '.pm');
    return join '::', @parts;
}

sub verb_load {
    my ($modules) = @_;
    for my $wanted (@$modules) {
        my ($module, $optional) = @$wanted;
        eval { load_module($module) } or show($module, "$@");
    }
    return ok('null');
}

sub verb_entry {
    my ($text) = @_;
    undef $entry;
    my ($module, $names) = split /:/, $text, 2;
    my @names = split /\./, defined $names ? $names : '';
    my $name = pop @names;
    my $package = eval { load_module($module) } or show($text, "$@");
    $package = join '::', $package, @names;
    no strict 'refs';
    defined $name && defined &{"${package}::$name"} or show($text, "$text is no function\n");
    my $function = \&{"${package}::$name"};
    $entry = @names ? sub { $function->($package, @_) } : $function;
    return ok('null');
}

sub verb_row {
    my ($form, $text, $repeat, $seed, $take) = @_;
    bad('a row without an entry') if !$entry;
    my $given = plain_numbers($json->decode($text));
    srand $seed if defined $seed;
    my $arguments = $form eq 'listed' ? $given : $form eq 'named' ? [%$given] : bad("no form $form");
    my @values = map { encode(scalar $entry->(@$arguments), 1) } 1 .. $repeat;
    return ok(tagged('t', @values));
}

sub verb_run {
    my ($argv, $stdin, $limit) = @_;
    my ($tag, @argv) = @$argv;
    utf8::encode($_) for @argv;
    my ($in, $out, $err) = map { open my $f, '+>', undef or die "make a file: $!\n"; $f } 1 .. 3;
    syswrite $in, pack 'H*', $stdin->[1];
    sysseek $in, 0, SEEK_SET;
    pipe my $started, my $failed or die "make a pipe: $!\n";
    defined(my $child = fork) or die "start $argv[0]: $!\n";
    if (!$child) {
        setpgrp;
        POSIX::dup2(fileno $in, 0);
        POSIX::dup2(fileno $out, 1);
        POSIX::dup2(fileno $err, 2);
        { no warnings 'exec'; exec { $argv[0] } @argv }
        syswrite $failed, "$!";
        POSIX::_exit(127);
    }
    close $failed;
    my $late = 0;
    local $SIG{ALRM} = sub { $late = 1; kill 'KILL', -$child };
    alarm $limit;
    waitpid $child, 0;
    alarm 0;
    my $status = $? & 127 ? -($? & 127) : $? >> 8;
    sysread $started, my $why, 200;
    die "start $argv[0]: $why\n" if length $why;
    die "$argv[0] ran longer than $limit s\n" if $late;
    return ok(tagged('t', $status, map { octets($_) } $out, $err));
}

sub octets {
    my ($file) = @_;
    sysseek $file, 0, SEEK_SET;
    my $n = sysread $file, my $bytes, MAX_OUTPUT;
    return tagged('b', '"' . unpack('H*', $bytes) . '"');
}

# ---- values

# JSON::PP reads every number with a point or an exponent as a Math::BigFloat;
# pushed code gets an ordinary number.
sub plain_numbers {
    my ($v) = @_;
    return $v->numify if ref $v eq 'Math::BigFloat';
    if (ref $v eq 'ARRAY') { $_ = plain_numbers($_) for @$v }
    if (ref $v eq 'HASH')  { $_ = plain_numbers($_) for values %$v }
    return $v;
}

sub tagged { my ($tag, @parts) = @_; return '[' . join(',', qq("$tag"), @parts) . ']' }

sub encode {
    my ($v, $depth) = @_;
    no warnings 'recursion';
    bad('a value nested deeper than ' . MAX_DEPTH) if $depth > MAX_DEPTH;
    return 'null' if !defined $v;
    return encode_scalar($v) if !ref $v;
    return $v ? 'true' : 'false' if JSON::PP::is_bool($v);
    return tagged('L', map { encode($_, $depth + 1) } @$v) if ref $v eq 'ARRAY';
    return tagged('M', map { encode_string($_), encode($v->{$_}, $depth + 1) } sort keys %$v) if ref $v eq 'HASH';
    return encode_integer($v) if ref $v eq 'Math::BigInt' && $v->is_int;
    return tagged('o', 0, 0);
}

# A scalar is what it was made as: a string that was used as a number stays one.
sub encode_scalar {
    my ($v) = @_;
    my $flags = B::svref_2object(\$v)->FLAGS;
    return encode_string($v) if $flags & B::SVf_POK;
    return encode_integer($v) if $flags & B::SVf_IOK;
    return encode_float($v) if $flags & B::SVf_NOK;
    return tagged('o', 0, 0);
}

sub encode_integer {
    my ($v) = @_;
    return "$v" if -SMALL < $v && $v < SMALL;
    require Math::BigInt;
    return tagged('i', '"' . Math::BigInt->new("$v")->as_hex . '"');
}

# Perl has one kind of number: a whole one travels as an integer.
sub encode_float {
    my ($v) = @_;
    my $hex = lc sprintf '%a', $v;
    return tagged('f', '"nan"') if $v != $v;
    return sprintf '%d', $v if abs $v < SMALL && $v == int $v && $hex ne '-0x0p+0';
    return tagged('f', qq("$hex"));
}

sub encode_string {
    my ($v) = @_;
    return encode_surrogates($v) if $v =~ /[\x{d800}-\x{dfff}]/;
    $v =~ s/(["\\])/\\$1/g;
    $v =~ s/([^\x20-\x7e])/escape(ord $1)/ge;
    return qq("$v");
}

sub escape {
    my ($c) = @_;
    return sprintf '\u%04x', $c if $c < 0x10000;
    bad('a character beyond Unicode') if $c > 0x10ffff;
    $c -= 0x10000;
    return sprintf '\u%04x\u%04x', 0xd800 + ($c >> 10), 0xdc00 + ($c & 0x3ff);
}

sub encode_surrogates {
    my ($v) = @_;
    utf8::encode($v);
    return tagged('u', '"' . unpack('H*', $v) . '"');
}
