exports.here = () => 'nested';
